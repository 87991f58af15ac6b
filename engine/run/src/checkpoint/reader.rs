//! Reads elements of a checkpoint, in whichever files they lie.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipezero_files::opened::open_regular;
use pipezero_files::safetensors::index_of;
use pipezero_models::parameter::ParameterSpec;

use super::blocks::{BLOCK_BYTES, checksum};
use super::error::CheckpointError;
use super::manifest::{FileRecord, Manifest};
use super::piece::Piece;
use super::shard_header::ShardHeader;
use crate::unusable_value::PlaceInFile;

/// A checkpoint whose manifest and headers are sound, and whose files together have every element, once, unless other hosts have some of them.
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
pub(super) struct Shard {
    path: PathBuf,
    /// Where its data begins.
    start: u64,
    blocks: Vec<String>,
    num_data_bytes: u64,
}

/// Consecutive elements of a parameter in one file.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) range: Range<usize>,
    pub(super) shard: usize,
    /// The place of the first element's first byte in the file's data.
    pub(super) start: u64,
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
            if record.place != manifest.place && !folder.join(&record.name).exists() {
                elsewhere.push(record.clone());
                continue;
            }
            let (shard, header) = Shard::open(folder, record, manifest.header_bytes_max(record))?;
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

    /// Checks that each element of each parameter and state is there, and none twice. Where other hosts have files, whether elements are missing
    /// shows when they are read.
    fn check_is_whole(&self) -> Result<(), CheckpointError> {
        let damaged = |reason| CheckpointError::damaged(&self.folder.join(Manifest::FILE), reason);
        let mut num_known = 0;
        for parameter in &self.manifest.parameters {
            for kind in self.manifest.kinds_of(parameter) {
                let (name, num) = (&parameter.name, parameter.num_elements());
                let parts = self.parts(kind, name);
                num_known += usize::from(!parts.is_empty());
                let (mut end, mut has_hole) = (0, false);
                for part in parts {
                    if part.range.start < end || part.range.end > num {
                        let Range { start, end } = part.range;
                        return Err(damaged(format!(
                            "the files have elements {start}..{end} of {kind} `{name}`, which has {num}, twice or in vain"
                        )));
                    }
                    has_hole |= part.range.start != end;
                    end = part.range.end;
                }
                if self.elsewhere.is_empty() && (has_hole || end != num) {
                    let reason =
                        format!("the files do not have all elements of {kind} `{name}`, which has {num}");
                    return Err(damaged(reason));
                }
            }
        }
        if num_known != self.parts.len() {
            return Err(damaged("the files have elements of what it does not list".to_owned()));
        }
        Ok(())
    }

    /// The parts of a parameter or state, in the order of their elements.
    pub(super) fn parts(&self, kind: &str, name: &str) -> &[Part] {
        self.parts.get(&(name.to_owned(), kind.to_owned())).map_or(&[], Vec::as_slice)
    }

    /// Where an element of a parameter, or of one of its states, lies.
    ///
    /// # Panics
    /// If the checkpoint does not have it here.
    pub(crate) fn place(&self, kind: &str, spec: &ParameterSpec, element: usize) -> PlaceInFile {
        let part = self.parts(kind, &spec.name).iter().find(|part| part.range.contains(&element));
        let part = part.expect("it has been read");
        let tensor =
            if kind == Piece::PARAMETER { spec.name.clone() } else { format!("{kind}/{}", spec.name) };
        PlaceInFile::new(&self.shards[part.shard].path, tensor, index_of(&spec.shape, element))
    }

    pub(super) fn shard(&self, index: usize) -> &Shard {
        &self.shards[index]
    }

    /// The error that elements are in a file of another host, if there are such files.
    pub(super) fn elsewhere(&self, needed: impl FnOnce() -> String) -> Option<CheckpointError> {
        if self.elsewhere.is_empty() {
            return None;
        }
        let name = |file: &FileRecord| {
            format!("{} of {}", file.name, file.host.as_deref().unwrap_or("another host"))
        };
        let files = self.elsewhere.iter().map(name).collect::<Vec<_>>().join(", ");
        Some(CheckpointError::Elsewhere { folder: self.folder.clone(), needed: needed(), files })
    }

    /// Reads every byte, and so every checksum.
    ///
    /// # Errors
    /// When a file cannot be read, has other bytes than were written, or is one of another host.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        self.elsewhere(|| "every element".to_owned()).map_or(Ok(()), Err)?;
        let mut block = vec![0; BLOCK_BYTES];
        for shard in &self.shards {
            (0..shard.num_blocks()).try_for_each(|index| shard.read_block(index, &mut block))?;
        }
        Ok(())
    }
}

impl Shard {
    fn open(
        folder: &Path,
        record: &FileRecord,
        header_bytes_max: u64,
    ) -> Result<(Self, ShardHeader), CheckpointError> {
        let path = folder.join(&record.name);
        let damaged = |reason: String| CheckpointError::damaged(&path, reason);
        let io = CheckpointError::io(&path);
        let mut file = match open_regular(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(damaged("it is missing".to_owned()));
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(damaged(error.to_string())),
            opened => opened.map_err(&io)?,
        };
        let num_bytes = file.metadata().map_err(&io)?.len();
        if num_bytes != record.num_bytes {
            return Err(damaged(format!("it has {num_bytes} bytes, and {} were written", record.num_bytes)));
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(&io)?;
        let header_bytes = u64::from_le_bytes(length);
        // Before memory is taken for it.
        if header_bytes > header_bytes_max || header_bytes > num_bytes - 8 {
            let reason = format!(
                "its header claims {header_bytes} bytes of {num_bytes}, and has at most {header_bytes_max}"
            );
            return Err(damaged(reason));
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

    pub(super) fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Where a block lies in the data.
    pub(super) fn block(&self, index: usize) -> Range<u64> {
        let start = (index * BLOCK_BYTES) as u64;
        start..self.num_data_bytes.min(start + BLOCK_BYTES as u64)
    }

    /// Reads a block to the beginning of `bytes`, and checks it.
    pub(super) fn read_block(&self, index: usize, bytes: &mut [u8]) -> Result<(), CheckpointError> {
        let Range { start, end } = self.block(index);
        let bytes = &mut bytes[..(end - start) as usize];
        // Opened each time: there may be more files than a process may have open.
        let read = open_regular(&self.path).and_then(|file| file.read_exact_at(bytes, self.start + start));
        read.map_err(CheckpointError::io(&self.path))?;
        if checksum(bytes) != self.blocks[index] {
            let reason = format!("bytes {start} to {} of its data do not match their checksum", end - 1);
            return Err(CheckpointError::damaged(&self.path, reason));
        }
        Ok(())
    }
}
