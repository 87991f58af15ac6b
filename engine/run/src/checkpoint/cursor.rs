//! Reads elements one behind the other: each block of a file once.

use super::blocks::BLOCK_BYTES;
use super::elements::bytes_of_mut;
use super::error::CheckpointError;
use super::piece::Piece;
use super::reader::CheckpointReader;
use super::shard_header::ELEMENT_BYTES;

/// Reads a checkpoint, and keeps the block that it read a part of last: 1 MiB.
#[derive(Debug)]
pub struct Cursor<'a> {
    reader: &'a CheckpointReader,
    /// The file and the block.
    known: Option<(usize, usize)>,
    /// What is in it.
    bytes: Vec<u8>,
    num_read_bytes: u64,
}

impl<'a> Cursor<'a> {
    /// Of a checkpoint.
    pub fn new(reader: &'a CheckpointReader) -> Self {
        Self { reader, known: None, bytes: Vec::new(), num_read_bytes: 0 }
    }

    /// How many bytes of the checkpoint's files it has read: whole blocks.
    pub fn num_read_bytes(&self) -> u64 {
        self.num_read_bytes
    }

    /// Reads elements of a parameter, from its element `first` on; `kind` is [`Piece::PARAMETER`] or one of the optimizer's states.
    ///
    /// # Errors
    /// When a file cannot be read, or has other bytes than were written; [`CheckpointError::Elsewhere`] where another host has it.
    ///
    /// # Panics
    /// If the checkpoint has no such elements, which callers have checked.
    pub fn read(
        &mut self,
        kind: &str,
        name: &str,
        first: usize,
        values: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let parts = self.reader.parts(kind, name);
        let wanted = first..first + values.len();
        let mut filled = 0;
        let begin = parts.partition_point(|part| part.range.end <= wanted.start);
        for part in parts[begin..].iter().take_while(|part| part.range.start < wanted.end) {
            let range = part.range.start.max(wanted.start)..part.range.end.min(wanted.end);
            if range.start != first + filled {
                break;
            }
            let start = part.start + ELEMENT_BYTES * (range.start - part.range.start) as u64;
            let into = &mut values[range.start - first..range.end - first];
            self.read_bytes(part.shard, start, bytes_of_mut(into))?;
            filled += range.len();
        }
        if filled < values.len() {
            let needed = Piece { kind: kind.to_owned(), name: name.to_owned(), range: wanted };
            let elsewhere = self.reader.elsewhere(|| needed.to_string());
            return Err(elsewhere.expect("a whole checkpoint has all elements of its parameters"));
        }
        Ok(())
    }

    /// Reads bytes of a file's data from `start` on, and checks the blocks in which they lie.
    fn read_bytes(&mut self, shard: usize, start: u64, mut into: &mut [u8]) -> Result<(), CheckpointError> {
        let file = self.reader.shard(shard);
        let mut at = start;
        while !into.is_empty() {
            let index = (at / BLOCK_BYTES as u64) as usize;
            let block = file.block(index);
            let len = into.len().min((block.end - at) as usize);
            let (now, later) = into.split_at_mut(len);
            if now.len() as u64 == block.end - block.start {
                file.read_block(index, now)?;
                self.num_read_bytes += len as u64;
            } else {
                if self.known != Some((shard, index)) {
                    self.known = None;
                    self.bytes.resize(BLOCK_BYTES, 0);
                    file.read_block(index, &mut self.bytes)?;
                    self.num_read_bytes += block.end - block.start;
                    self.known = Some((shard, index));
                }
                let from = (at - block.start) as usize;
                now.copy_from_slice(&self.bytes[from..from + len]);
            }
            at += len as u64;
            into = later;
        }
        Ok(())
    }
}
