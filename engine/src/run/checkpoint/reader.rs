//! Reads elements of a checkpoint, in whichever files they lie.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::blocks::{BLOCK_BYTES, checksum};
use super::error::CheckpointError;
use super::manifest::{FileRecord, Manifest};
use super::piece::Piece;
use super::shard_header::{ELEMENT_BYTES, ShardHeader};

/// A checkpoint whose manifest and headers are sound, and whose files together have every element.
#[derive(Debug)]
pub struct CheckpointReader {
    folder: PathBuf,
    manifest: Manifest,
    shards: Vec<Shard>,
    /// Files that other hosts have.
    elsewhere: Vec<FileRecord>,
    /// By parameter and kind: its parts, in the order of their elements.
    parts: HashMap<(String, String), Vec<Part>>,
}

/// A file of elements.
#[derive(Debug)]
struct Shard {
    path: PathBuf,
    /// Where its data begins.
    start: u64,
    blocks: Vec<String>,
    num_data_bytes: u64,
}

/// Consecutive elements of a parameter in one file.
#[derive(Debug)]
struct Part {
    range: Range<usize>,
    shard: usize,
    /// The place of the first element's first byte in the file's data.
    start: u64,
}

impl CheckpointReader {
    /// Opens a checkpoint's folder and reads its manifest and headers.
    ///
    /// # Errors
    /// When a file is missing or damaged, or another version wrote it.
    pub fn open(folder: &Path) -> Result<Self, CheckpointError> {
        let manifest = Manifest::read(folder)?;
        let mut parts: HashMap<(String, String), Vec<Part>> = HashMap::new();
        let (mut shards, mut elsewhere) = (Vec::new(), Vec::new());
        for record in &manifest.files {
            if record.host.is_some() && !folder.join(&record.name).exists() {
                elsewhere.push(record.clone());
                continue;
            }
            let (shard, header) = Shard::open(folder, record)?;
            for (Piece { kind, name, range }, start) in header.pieces {
                parts.entry((name, kind)).or_default().push(Part { range, shard: shards.len(), start });
            }
            shards.push(shard);
        }
        parts.values_mut().for_each(|parts| parts.sort_by_key(|part| part.range.start));
        let reader = Self { folder: folder.to_owned(), manifest, shards, elsewhere, parts };
        reader.check_is_whole()?;
        Ok(reader)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks that each element of each parameter and state is there, once. Where other hosts have files, that shows when elements are read.
    fn check_is_whole(&self) -> Result<(), CheckpointError> {
        if !self.elsewhere.is_empty() {
            return Ok(());
        }
        let manifest = self.folder.join(Manifest::FILE);
        for parameter in &self.manifest.parameters {
            for kind in &self.manifest.kinds {
                let parts = self.parts.get(&(parameter.name.clone(), kind.clone()));
                let mut end = 0;
                for part in parts.into_iter().flatten() {
                    if part.range.start != end {
                        break;
                    }
                    end = part.range.end;
                }
                if end != parameter.num_elements() {
                    let (name, num) = (&parameter.name, parameter.num_elements());
                    let reason =
                        format!("the files have elements 0..{end} of {kind} `{name}`, which has {num}");
                    return Err(CheckpointError::damaged(&manifest, reason));
                }
            }
        }
        Ok(())
    }

    /// Reads elements of a parameter, from its element `first` on; `kind` is [`Piece::PARAMETER`] or one of the optimizer's states.
    ///
    /// # Errors
    /// When a file cannot be read, or has other bytes than were written; [`CheckpointError::Elsewhere`] where another host has it.
    ///
    /// # Panics
    /// If the checkpoint has no such elements, which callers have checked.
    pub fn read(
        &self,
        kind: &str,
        name: &str,
        first: usize,
        values: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let parts = self.parts.get(&(name.to_owned(), kind.to_owned())).map_or(&[][..], Vec::as_slice);
        let wanted = first..first + values.len();
        let mut filled = 0;
        let begin = parts.partition_point(|part| part.range.end <= wanted.start);
        for part in parts[begin..].iter().take_while(|part| part.range.start < wanted.end) {
            let range = part.range.start.max(wanted.start)..part.range.end.min(wanted.end);
            let start = part.start + ELEMENT_BYTES * (range.start - part.range.start) as u64;
            let into = &mut values[range.start - first..range.end - first];
            self.shards[part.shard].read(start, into)?;
            filled += range.len();
        }
        if filled < values.len() && !self.elsewhere.is_empty() {
            let needed = Piece { kind: kind.to_owned(), name: name.to_owned(), range: wanted };
            return Err(self.elsewhere(needed.to_string()));
        }
        assert_eq!(filled, values.len(), "a checkpoint has all elements of its parameters");
        Ok(())
    }

    /// The files of other hosts, one of which has what is needed.
    fn elsewhere(&self, needed: String) -> CheckpointError {
        let name = |file: &FileRecord| {
            format!("{} of {}", file.name, file.host.as_deref().unwrap_or("another host"))
        };
        let files = self.elsewhere.iter().map(name).collect::<Vec<_>>().join(", ");
        CheckpointError::Elsewhere { folder: self.folder.clone(), needed, files }
    }

    /// Reads every byte, and so every checksum.
    ///
    /// # Errors
    /// As [`CheckpointReader::read`].
    pub fn verify(&self) -> Result<(), CheckpointError> {
        if !self.elsewhere.is_empty() {
            return Err(self.elsewhere("every element".to_owned()));
        }
        let mut values = vec![0.0; BLOCK_BYTES / ELEMENT_BYTES as usize];
        for shard in &self.shards {
            let num = (shard.num_data_bytes / ELEMENT_BYTES) as usize;
            for first in (0..num).step_by(values.len()) {
                let len = values.len().min(num - first);
                shard.read(ELEMENT_BYTES * first as u64, &mut values[..len])?;
            }
        }
        Ok(())
    }
}

impl Shard {
    fn open(folder: &Path, record: &FileRecord) -> Result<(Self, ShardHeader), CheckpointError> {
        let path = folder.join(&record.name);
        let damaged = |reason: String| CheckpointError::damaged(&path, reason);
        let io = CheckpointError::io(&path);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged("it is missing".to_owned()));
            }
            opened => opened.map_err(&io)?,
        };
        let num_bytes = file.metadata().map_err(&io)?.len();
        if num_bytes != record.num_bytes {
            return Err(damaged(format!("it has {num_bytes} bytes, and {} were written", record.num_bytes)));
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(&io)?;
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > num_bytes - 8 {
            return Err(damaged(format!("its header claims {header_bytes} bytes of {num_bytes}")));
        }
        let mut header = length.to_vec();
        header.resize(8 + header_bytes as usize, 0);
        file.read_exact(&mut header[8..]).map_err(&io)?;
        if checksum(&header) != record.header_checksum {
            return Err(damaged("its header does not match the manifest's checksum".to_owned()));
        }
        let decoded = ShardHeader::decode(&header[8..]).map_err(&damaged)?;
        if header.len() as u64 + decoded.num_data_bytes != num_bytes {
            return Err(damaged(format!("its header describes {} bytes of data", decoded.num_data_bytes)));
        }
        let ShardHeader { blocks, num_data_bytes, .. } = &decoded;
        let (blocks, num_data_bytes) = (blocks.clone(), *num_data_bytes);
        Ok((Self { path, start: header.len() as u64, blocks, num_data_bytes }, decoded))
    }

    /// Reads elements from byte `start` of the data on, and checks the blocks in which they lie.
    fn read(&self, start: u64, values: &mut [f32]) -> Result<(), CheckpointError> {
        let io = CheckpointError::io(&self.path);
        let mut file = File::open(&self.path).map_err(&io)?;
        let end = start + ELEMENT_BYTES * values.len() as u64;
        let block_bytes = BLOCK_BYTES as u64;
        for block in start / block_bytes..end.div_ceil(block_bytes) {
            let block_start = block * block_bytes;
            let len = block_bytes.min(self.num_data_bytes - block_start);
            let mut bytes = vec![0; len as usize];
            file.seek(SeekFrom::Start(self.start + block_start)).map_err(&io)?;
            file.read_exact(&mut bytes).map_err(&io)?;
            if checksum(&bytes) != self.blocks[block as usize] {
                let last = block_start + len - 1;
                let reason = format!("bytes {block_start} to {last} of its data do not match their checksum");
                return Err(CheckpointError::damaged(&self.path, reason));
            }
            let from = start.max(block_start);
            let to = end.min(block_start + len);
            let place = |at: u64, of: u64| ((at - of) / ELEMENT_BYTES) as usize;
            let into = &mut values[place(from, start)..place(to, start)];
            let found = &bytes[(from - block_start) as usize..(to - block_start) as usize];
            for (value, bytes) in into.iter_mut().zip(found.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }
}
