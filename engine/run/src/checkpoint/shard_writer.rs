//! Writes a rank's file.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::blocks::{BLOCK_BYTES, DIGITS, checksum, digits, num_blocks};
use super::elements::bytes_of;
use super::manifest::FileRecord;
use super::piece::Piece;
use super::shard_header::{ELEMENT_BYTES, encode};

/// A rank's file that is being written: elements come in the order of its pieces.
pub(crate) struct ShardWriter {
    name: String,
    file: BufWriter<File>,
    pieces: Vec<Piece>,
    /// Of the block that is being filled.
    block: Xxh3,
    /// Its bytes so far.
    num_block_bytes: usize,
    /// Checksums of the blocks before it.
    checksums: Vec<String>,
    num_bytes: u64,
}

impl ShardWriter {
    /// Starts the file of a rank in a checkpoint's folder.
    pub(crate) fn create(folder: &Path, rank: usize, pieces: Vec<Piece>) -> io::Result<Self> {
        let name = format!("rank-{rank:05}.safetensors");
        let mut file = BufWriter::with_capacity(BLOCK_BYTES, File::create_new(folder.join(&name))?);
        let num_data_bytes = ELEMENT_BYTES * pieces.iter().map(|piece| piece.range.len() as u64).sum::<u64>();
        // The header comes last, and is as long as one with any other checksums.
        let header = encode(&pieces, &vec!["0".repeat(DIGITS); num_blocks(num_data_bytes)])?;
        file.seek(SeekFrom::Start(header.len() as u64))?;
        let num_bytes = header.len() as u64 + num_data_bytes;
        let (block, checksums) = (Xxh3::new(), Vec::new());
        Ok(Self { name, file, pieces, block, num_block_bytes: 0, checksums, num_bytes })
    }

    /// Adds elements.
    pub(crate) fn write(&mut self, values: &[f32]) -> io::Result<()> {
        let mut bytes = bytes_of(values);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.num_block_bytes));
            self.block.update(now);
            self.file.write_all(now)?;
            self.num_block_bytes += now.len();
            bytes = later;
            if self.num_block_bytes == BLOCK_BYTES {
                self.end_block();
            }
        }
        Ok(())
    }

    fn end_block(&mut self) {
        self.checksums.push(digits(self.block.digest()));
        self.block.reset();
        self.num_block_bytes = 0;
    }

    /// Completes the file, and returns once it is on disk.
    ///
    /// # Panics
    /// If other elements were written than the pieces have.
    pub(crate) fn finish(mut self) -> io::Result<FileRecord> {
        if self.num_block_bytes > 0 {
            self.end_block();
        }
        assert_eq!(self.file.stream_position()?, self.num_bytes, "as many elements as the pieces have");
        let header = encode(&self.pieces, &self.checksums)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        Ok(FileRecord {
            name: self.name,
            num_bytes: self.num_bytes,
            header_checksum: checksum(&header),
            place: 0,
            host: None,
        })
    }
}
