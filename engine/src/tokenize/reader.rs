//! Reads the inputs piece by piece: a line of JSON, or a piece of text between separators.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::error::TokenizeError;
use super::fault::DocumentFault;
use crate::run::data::is_json_lines;
use crate::tokens::Tokenizer;

/// Bytes of text of a batch, more or less: enough that handing it to a worker costs nothing beside tokenizing it.
const BATCH_BYTES: usize = 1 << 18;

/// What some editors write at the beginning of a file, to say that it is UTF-8.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Where the next piece begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// Which input.
    pub(super) file: usize,
    /// Where in it, in bytes.
    pub(super) offset: u64,
    /// Its line there, from 0.
    pub(super) line: u64,
    /// Of the file's bytes before it.
    pub(super) checksum: u64,
}

/// Pieces of one file, one after the other.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) path: PathBuf,
    pub(super) is_json: bool,
    /// Each with the line that it begins with, from 1.
    pub(super) pieces: Vec<(u64, String)>,
    /// Where the next batch begins.
    pub(super) next: Place,
    /// Bytes of the inputs up to there.
    pub(super) num_bytes: u64,
}

/// Reads the inputs from a place on.
pub(super) struct Reader<'a> {
    files: &'a [PathBuf],
    separator: Option<&'a str>,
    place: Place,
    open: Option<OpenFile>,
    num_bytes: u64,
}

/// A file that is being read.
struct OpenFile {
    from: BufReader<File>,
    /// Of what has been read.
    checksum: Xxh3,
}

impl<'a> Reader<'a> {
    /// Reads from a place on, before which lie `num_bytes` of the inputs.
    pub(super) fn new(
        files: &'a [PathBuf],
        separator: Option<&'a str>,
        place: Place,
        num_bytes: u64,
    ) -> Self {
        Self { files, separator, place, open: None, num_bytes }
    }

    /// The next pieces; `None` after the last.
    pub(super) fn batch(&mut self) -> Result<Option<Batch>, TokenizeError> {
        while let Some(path) = self.files.get(self.place.file) {
            let is_json = is_json_lines(path);
            let (mut pieces, mut num_bytes) = (Vec::new(), 0);
            while num_bytes < BATCH_BYTES {
                let line = self.place.line + 1;
                let Some(piece) = self.piece(path, is_json)? else { break };
                num_bytes += piece.len();
                if !piece.trim().is_empty() {
                    pieces.push((line, piece));
                }
            }
            if let Some(open) = &self.open {
                self.place.checksum = open.checksum.digest();
            }
            if num_bytes < BATCH_BYTES {
                self.open = None;
                self.place = Place { file: self.place.file + 1, ..Place::default() };
            }
            if !pieces.is_empty() {
                let (path, next, num_bytes) = (path.clone(), self.place, self.num_bytes);
                return Ok(Some(Batch { path, is_json, pieces, next, num_bytes }));
            }
        }
        Ok(None)
    }

    /// The next piece of the file, without its separator and without the file's byte order mark; `None` at its end.
    fn piece(&mut self, path: &Path, is_json: bool) -> Result<Option<String>, TokenizeError> {
        let failed = TokenizeError::io(path);
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(OpenFile::at(self.place, path)?),
        };
        let separator = if is_json { Some("\n") } else { self.separator };
        let mut bytes = Vec::new();
        let line = self.place.line + 1;
        let document =
            |fault| TokenizeError::Document { path: path.to_owned(), line, fault: Box::new(fault) };
        let ended = read_until(&mut open.from, separator.map(str::as_bytes), &mut bytes).map_err(&failed)?;
        let Some(ended) = ended else {
            return Err(document(if is_json { DocumentFault::LongLine } else { DocumentFault::LongText }));
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        open.checksum.update(&bytes);
        let is_first = self.place.offset == 0;
        self.place.offset += bytes.len() as u64;
        self.num_bytes += bytes.len() as u64;
        self.place.line += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if ended {
            bytes.truncate(bytes.len() - separator.map_or(0, str::len));
        }
        let mut piece = String::from_utf8(bytes)
            .map_err(|error| document(DocumentFault::NotUtf8 { offset: error.utf8_error().valid_up_to() }))?;
        if is_first && piece.starts_with(BYTE_ORDER_MARK) {
            piece.remove(0);
        }
        Ok(Some(piece))
    }
}

impl OpenFile {
    /// A file from a place on.
    ///
    /// # Errors
    /// When it cannot be read, and [`TokenizeError::ChangedBefore`] where the bytes before the place are not those that were read.
    fn at(place: Place, path: &Path) -> Result<Self, TokenizeError> {
        let failed = TokenizeError::io(path);
        let file = File::open(path).map_err(&failed)?;
        let mut open = Self { from: BufReader::with_capacity(1 << 18, file), checksum: Xxh3::new() };
        let mut left = place.offset;
        while left > 0 {
            let bytes = open.from.fill_buf().map_err(&failed)?;
            if bytes.is_empty() {
                break;
            }
            let num_bytes = left.min(bytes.len() as u64);
            open.checksum.update(&bytes[..num_bytes as usize]);
            open.from.consume(num_bytes as usize);
            left -= num_bytes;
        }
        let is_known = left == 0 && (place.offset == 0 || open.checksum.digest() == place.checksum);
        let changed = || TokenizeError::ChangedBefore { path: path.to_owned(), num_bytes: place.offset };
        is_known.then_some(open).ok_or_else(changed)
    }
}

/// Appends what stands up to a separator, with it: whether there was one; `None` if it is too long.
fn read_until(
    from: &mut impl BufRead,
    separator: Option<&[u8]>,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<bool>> {
    loop {
        let available = match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok(Some(false));
        }
        // Up to the separator's last byte, where the whole one may end.
        let last = separator.and_then(|separator| separator.last());
        let found = last.and_then(|last| available.iter().position(|byte| byte == last));
        let len = found.map_or(available.len(), |at| at + 1);
        bytes.extend_from_slice(&available[..len]);
        from.consume(len);
        if bytes.len() > Tokenizer::TEXT_BYTES_MAX {
            return Ok(None);
        }
        if separator.is_some_and(|separator| bytes.ends_with(separator)) {
            return Ok(Some(true));
        }
    }
}
