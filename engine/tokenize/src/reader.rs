//! Reads the inputs record by record, from the place where earlier work has ended.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use pipezero_files::opened::open_regular;
use pipezero_files::records::{self, Layout, Record, RecordError, RecordFault};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::error::TokenizeError;

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

/// Records of one file, one after the other.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) path: PathBuf,
    pub(super) layout: Layout,
    /// Each with the line that it begins with, from 1.
    pub(super) records: Vec<(u64, String)>,
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
    layout: Layout,
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
        let open = match begun.map(|path| OpenFile::at(place, path, separator, is_to_stop)).transpose()? {
            Some(None) => return Ok(None),
            open => open.flatten(),
        };
        Ok(Some(Self { files, separator, place, open, num_bytes }))
    }

    /// The next records; `None` after the last.
    pub(super) fn batch(&mut self) -> Result<Option<Batch>, TokenizeError> {
        if let Some(path) = self.files.get(self.place.file) {
            let (mut records, mut is_at_end, mut layout) = (Vec::new(), false, Layout::Whole);
            let end = self.num_bytes + BATCH_BYTES;
            while self.num_bytes < end && !is_at_end {
                let line = self.place.line + 1;
                let (record, of_file) = self.record(path)?;
                (is_at_end, layout) = (record.is_last, of_file);
                if !record.text.trim().is_empty() {
                    records.push((line + record.lines_before, record.text));
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
            return Ok(Some(Batch { path, layout, records, next, num_bytes }));
        }
        Ok(None)
    }

    /// The next record of the file.
    fn record(&mut self, path: &Path) -> Result<(Record, Layout), TokenizeError> {
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(OpenFile::new(path, self.separator)?),
        };
        let begun = self.place;
        let read = records::read(&mut open.from, &open.layout, begun.offset == 0);
        let record = read.map_err(|RecordError { lines_before, fault }| match fault {
            RecordFault::Io(source) => TokenizeError::io(path)(source),
            fault => TokenizeError::Document {
                path: path.to_owned(),
                line: begun.line + lines_before + 1,
                fault: Box::new(fault.into()),
            },
        })?;
        open.checksum.update(&record.bytes);
        self.place.offset += record.bytes.len() as u64;
        self.num_bytes += record.bytes.len() as u64;
        self.place.line += record.bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        Ok((record, open.layout.clone()))
    }
}

impl OpenFile {
    fn new(path: &Path, separator: Option<&str>) -> Result<Self, TokenizeError> {
        let layout = Layout::of(path, separator).map_err(TokenizeError::io(path))?;
        let file = open_regular(path).map_err(TokenizeError::io(path))?;
        Ok(Self { from: BufReader::with_capacity(1 << 18, file), layout, checksum: Xxh3::new() })
    }

    /// A file from a place on; `None` if the way there was to end before.
    fn at(
        place: Place,
        path: &Path,
        separator: Option<&str>,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<Option<Self>, TokenizeError> {
        let mut open = Self::new(path, separator)?;
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
