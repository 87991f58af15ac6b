//! Reads the inputs piece by piece: a line of JSON, or a piece of text between separators.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use pipezero_files::input::without_mark;
use pipezero_tokens::Tokenizer;
use pipezero_tokens::text::is_json_lines;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::error::TokenizeError;
use super::fault::DocumentFault;

/// Bytes of text of a batch, more or less: enough that handing it to a worker costs nothing beside tokenizing it.
const BATCH_BYTES: u64 = 1 << 18;

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

/// A document of a file, or what may be one.
struct Piece {
    text: String,
    /// Whether the file has no other behind it.
    is_last: bool,
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
    /// Reads from a place on, before which lie `num_bytes` of the inputs. What lies before it in its file is looked through; `None` if `is_to_stop`
    /// said meanwhile that this is to end.
    ///
    /// # Errors
    /// When the file cannot be read, and [`TokenizeError::ChangedBefore`] where it begins with other bytes than were read.
    pub(super) fn new(
        files: &'a [PathBuf],
        separator: Option<&'a str>,
        place: Place,
        num_bytes: u64,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, TokenizeError> {
        let begun = files.get(place.file).filter(|_| place.offset > 0);
        let open = match begun.map(|path| OpenFile::at(place, path, is_to_stop)).transpose()? {
            Some(None) => return Ok(None),
            open => open.flatten(),
        };
        Ok(Some(Self { files, separator, place, open, num_bytes }))
    }

    /// The next pieces; `None` after the last.
    pub(super) fn batch(&mut self) -> Result<Option<Batch>, TokenizeError> {
        if let Some(path) = self.files.get(self.place.file) {
            let is_json = is_json_lines(path);
            let (mut pieces, mut is_at_end) = (Vec::new(), false);
            let end = self.num_bytes + BATCH_BYTES;
            while self.num_bytes < end && !is_at_end {
                let line = self.place.line + 1;
                let Piece { text, is_last } = self.piece(path, is_json)?;
                is_at_end = is_last;
                if !text.trim().is_empty() {
                    pieces.push((line, text));
                }
            }
            if let Some(open) = &self.open {
                self.place.checksum = open.checksum.digest();
            }
            if is_at_end {
                self.open = None;
                self.place = Place { file: self.place.file + 1, ..Place::default() };
            }
            let (path, next, num_bytes) = (path.clone(), self.place, self.num_bytes);
            return Ok(Some(Batch { path, is_json, pieces, next, num_bytes }));
        }
        Ok(None)
    }

    /// The next piece of the file, without its separator and without the file's byte order mark. Behind the last separator it is the last one, and
    /// may be empty.
    fn piece(&mut self, path: &Path, is_json: bool) -> Result<Piece, TokenizeError> {
        let failed = TokenizeError::io(path);
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(OpenFile::new(path)?),
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
        open.checksum.update(&bytes);
        let is_first = self.place.offset == 0;
        self.place.offset += bytes.len() as u64;
        self.num_bytes += bytes.len() as u64;
        self.place.line += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if ended {
            bytes.truncate(bytes.len() - separator.map_or(0, str::len));
        }
        let piece = String::from_utf8(bytes)
            .map_err(|error| document(DocumentFault::NotUtf8 { offset: error.utf8_error().valid_up_to() }))?;
        let text = if is_first { without_mark(&piece).to_owned() } else { piece };
        Ok(Piece { text, is_last: !ended })
    }
}

impl OpenFile {
    fn new(path: &Path) -> Result<Self, TokenizeError> {
        let file = File::open(path).map_err(TokenizeError::io(path))?;
        Ok(Self { from: BufReader::with_capacity(1 << 18, file), checksum: Xxh3::new() })
    }

    /// A file from a place on; `None` if the way there was to end before.
    fn at(place: Place, path: &Path, is_to_stop: &dyn Fn() -> bool) -> Result<Option<Self>, TokenizeError> {
        let mut open = Self::new(path)?;
        let mut left = place.offset;
        while left > 0 {
            if is_to_stop() {
                return Ok(None);
            }
            let bytes = available(&mut open.from).map_err(TokenizeError::io(path))?;
            if bytes.is_empty() {
                break;
            }
            let num_bytes = left.min(bytes.len() as u64);
            open.checksum.update(&bytes[..num_bytes as usize]);
            open.from.consume(num_bytes as usize);
            left -= num_bytes;
        }
        if left == 0 && open.checksum.digest() == place.checksum {
            return Ok(Some(open));
        }
        Err(TokenizeError::ChangedBefore { path: path.to_owned(), num_bytes: place.offset })
    }
}

/// What has been read and not consumed; empty at the end alone.
fn available(from: &mut impl BufRead) -> io::Result<&[u8]> {
    loop {
        match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Asked again, since the borrow would last beyond the loop.
            Ok(_) => return from.fill_buf(),
            Err(error) => return Err(error),
        }
    }
}

/// Appends what stands up to a separator, with it: whether there was one; `None` if it is too long.
fn read_until(
    from: &mut impl BufRead,
    separator: Option<&[u8]>,
    bytes: &mut Vec<u8>,
) -> io::Result<Option<bool>> {
    loop {
        let available = available(from)?;
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
