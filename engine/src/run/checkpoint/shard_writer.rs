//! Writes a rank's file.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use super::blocks::{BLOCK_BYTES, DIGITS, checksum, num_blocks};
use super::manifest::FileRecord;
use super::piece::Piece;
use super::shard_header::{ELEMENT_BYTES, encode};

/// A rank's file that is being written: elements come in the order of its pieces.
#[derive(Debug)]
pub(crate) struct ShardWriter {
    name: String,
    file: File,
    pieces: Vec<Piece>,
    /// The block that is being filled.
    block: Vec<u8>,
    /// Checksums of the blocks before it.
    checksums: Vec<String>,
    num_bytes: u64,
}

impl ShardWriter {
    /// Starts the file of a rank in a checkpoint's folder.
    pub(crate) fn create(folder: &Path, rank: usize, pieces: Vec<Piece>) -> io::Result<Self> {
        let name = format!("rank-{rank:05}.safetensors");
        let mut file = File::create_new(folder.join(&name))?;
        let num_data_bytes = ELEMENT_BYTES * pieces.iter().map(|piece| piece.range.len() as u64).sum::<u64>();
        // The header comes last, and is as long as one with any other checksums.
        let header = encode(&pieces, &vec!["0".repeat(DIGITS); num_blocks(num_data_bytes)])?;
        file.seek(SeekFrom::Start(header.len() as u64))?;
        let num_bytes = header.len() as u64 + num_data_bytes;
        let block = Vec::with_capacity(BLOCK_BYTES);
        Ok(Self { name, file, pieces, block, checksums: Vec::new(), num_bytes })
    }

    /// Adds elements.
    pub(crate) fn write(&mut self, mut values: &[f32]) -> io::Result<()> {
        while !values.is_empty() {
            let room = (BLOCK_BYTES - self.block.len()) / ELEMENT_BYTES as usize;
            let (now, later) = values.split_at(room.min(values.len()));
            self.block.extend(now.iter().flat_map(|value| value.to_le_bytes()));
            values = later;
            if self.block.len() == BLOCK_BYTES {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.checksums.push(checksum(&self.block));
        self.file.write_all(&self.block)?;
        self.block.clear();
        Ok(())
    }

    /// Completes the file, and returns once it is on disk.
    ///
    /// # Panics
    /// If other elements were written than the pieces have.
    pub(crate) fn finish(mut self) -> io::Result<FileRecord> {
        if !self.block.is_empty() {
            self.end_block()?;
        }
        assert_eq!(self.file.stream_position()?, self.num_bytes, "as many elements as the pieces have");
        let header = encode(&self.pieces, &self.checksums)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        self.file.sync_all()?;
        Ok(FileRecord {
            name: self.name,
            num_bytes: self.num_bytes,
            header_checksum: checksum(&header),
            host: None,
        })
    }
}
