//! The bytes of a file of text, read where they lie.
//!
//! A text may be larger than memory. It is looked through once, block by block, and then read by position. The system keeps in its page cache what
//! fits, and drops it when memory is short, so no cache of our own is needed. A text that changes meanwhile would give a run other data than it was
//! checked with; so every read compares the file's length and its time of modification with those at the beginning.
//! Rejected: to map the file, since one that becomes shorter then kills the process with SIGBUS.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use pipezero_files::opened::open_regular;

use super::text::TextError;

/// Bytes that are read at once while a text is looked through.
const BLOCK_BYTES: usize = 1 << 20;

/// A file of text that is UTF-8, read by position.
#[derive(Debug)]
pub struct StreamedText {
    path: PathBuf,
    /// `None` where the file is opened for each read.
    held: Option<File>,
    found: Found,
    largest: Option<u8>,
}

/// Tells a file from another, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    num_bytes: u64,
    modified: (i64, i64),
    file: (u64, u64),
}

impl Found {
    fn of(found: &Metadata) -> Self {
        Self {
            num_bytes: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
            file: (found.dev(), found.ino()),
        }
    }
}

impl StreamedText {
    /// Files of a text that stay open while a run reads them. The others are opened for each read: a folder may hold more files than a process may
    /// have open.
    pub const HELD_MAX: usize = 256;

    /// Opens a text and looks through it. `is_held`: whether it stays open.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8, or changes meanwhile.
    pub fn open(path: &Path, is_held: bool) -> Result<Self, TextError> {
        let unreadable = |source| TextError::unreadable(path, source);
        let file = open_regular(path).map_err(unreadable)?;
        let found = Found::of(&file.metadata().map_err(unreadable)?);
        let mut text = Self { path: path.to_owned(), held: Some(file), found, largest: None };
        text.largest = text.check()?;
        if !is_held {
            text.held = None;
        }
        Ok(text)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length.
    pub fn num_bytes(&self) -> u64 {
        self.found.num_bytes
    }

    /// Its largest byte; `None` of an empty text.
    pub fn largest_byte(&self) -> Option<u8> {
        self.largest
    }

    /// Reads the bytes from `position` on, as many as `bytes` has.
    ///
    /// # Errors
    /// When they cannot be read, and [`TextError::Changed`] where the file is not the one that was opened any more.
    ///
    /// # Panics
    /// When the text has not so many.
    pub fn read(&self, position: u64, bytes: &mut [u8]) -> Result<(), TextError> {
        assert!(position + bytes.len() as u64 <= self.num_bytes(), "a range of the text");
        let opened;
        let file = match &self.held {
            Some(file) => file,
            None => {
                opened =
                    open_regular(&self.path).map_err(|source| TextError::unreadable(&self.path, source))?;
                &opened
            }
        };
        self.read_from(file, position, bytes)
    }

    /// Calls `each` with the bytes of a range, block by block.
    ///
    /// # Errors
    /// As [`StreamedText::read`].
    pub fn each_block(&self, range: Range<u64>, mut each: impl FnMut(&[u8])) -> Result<(), TextError> {
        let mut block = vec![0; BLOCK_BYTES.min((range.end - range.start) as usize)];
        for start in range.clone().step_by(BLOCK_BYTES) {
            let bytes = &mut block[..BLOCK_BYTES.min((range.end - start) as usize)];
            self.read(start, bytes)?;
            each(bytes);
        }
        Ok(())
    }

    /// The whole text.
    ///
    /// # Errors
    /// As [`StreamedText::read`].
    pub fn whole(&self) -> Result<String, TextError> {
        let mut bytes = vec![0; self.num_bytes() as usize];
        self.read(0, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| TextError::Changed(self.path.clone()))
    }

    fn read_from(&self, file: &File, position: u64, bytes: &mut [u8]) -> Result<(), TextError> {
        let changed = || TextError::Changed(self.path.clone());
        match file.read_exact_at(bytes, position) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(changed()),
            Err(error) => return Err(TextError::unreadable(&self.path, error)),
        }
        // After the read: what was written before it is in the time, and what is written after it was not read.
        let now = file.metadata().map_err(|source| TextError::unreadable(&self.path, source))?;
        if Found::of(&now) == self.found { Ok(()) } else { Err(changed()) }
    }

    /// Checks that all of it is UTF-8, and returns the largest byte.
    fn check(&self) -> Result<Option<u8>, TextError> {
        // The beginning of a character that the next block completes.
        let mut begun: Vec<u8> = Vec::new();
        let (mut largest, mut checked, mut wrong) = (None, 0, None);
        self.each_block(0..self.num_bytes(), |block| {
            largest = largest.max(block.iter().copied().max());
            if wrong.is_some() {
                return;
            }
            // Completed first, so that the block itself is not copied.
            let mut rest = block;
            while !begun.is_empty()
                && let Some((&byte, others)) = rest.split_first()
            {
                begun.push(byte);
                rest = others;
                match str::from_utf8(&begun) {
                    Ok(_) => {
                        checked += begun.len();
                        begun.clear();
                    }
                    Err(error) if error.error_len().is_none() => {}
                    Err(_) => return wrong = Some(checked),
                }
            }
            match str::from_utf8(rest) {
                Ok(_) => checked += rest.len(),
                Err(error) => {
                    checked += error.valid_up_to();
                    match error.error_len() {
                        Some(_) => wrong = Some(checked),
                        None => begun.extend(&rest[error.valid_up_to()..]),
                    }
                }
            }
        })?;
        match wrong.or((!begun.is_empty()).then_some(checked)) {
            Some(offset) => Err(TextError::NotUtf8 { path: self.path.clone(), offset }),
            None => Ok(largest),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
        let path = folder.join("a.txt");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Characters of every length around the end of a block, whole and cut, against the library's check of all bytes at once.
    #[test]
    fn texts_are_checked_across_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let mut num_refused = 0;
        for before in BLOCK_BYTES - 5..=BLOCK_BYTES + 1 {
            for end in ["a", "\u{e4}", "\u{4e16}b", "\u{1f980}", "\u{1f980}\u{e4}"] {
                for cut in 0..end.len() {
                    let mut bytes = vec![b'x'; before];
                    bytes.extend(&end.as_bytes()[..end.len() - cut]);
                    bytes.extend(if cut % 2 == 1 { &b"yy"[..] } else { b"" });
                    let path = written(folder.path(), &bytes);
                    let found = StreamedText::open(&path, true);
                    match str::from_utf8(&bytes) {
                        Ok(text) => {
                            let found = found.unwrap();
                            assert_eq!(found.whole().unwrap(), text);
                            assert_eq!(found.largest_byte(), bytes.iter().copied().max());
                        }
                        Err(wrong) => {
                            num_refused += 1;
                            let at = wrong.valid_up_to();
                            assert!(
                                matches!(&found, Err(TextError::NotUtf8 { offset, .. }) if *offset == at),
                                "{found:?}, not {at}"
                            );
                        }
                    }
                }
            }
        }
        assert!(num_refused > 20, "{num_refused}");
    }

    #[test]
    fn a_text_that_changes_is_an_error_and_one_that_is_replaced_is_read_on_where_it_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let change: [fn(&Path); 3] = [
            |path| fs::File::options().write(true).open(path).unwrap().write_all_at(b"X", 3).unwrap(),
            |path| fs::File::options().write(true).open(path).unwrap().set_len(5).unwrap(),
            |path| fs::write(path, "another text, longer").unwrap(),
        ];
        for (change, is_held) in change.into_iter().flat_map(|change| [(change, true), (change, false)]) {
            let path = written(folder.path(), b"some text");
            // Clocks of file systems have coarse steps: a change within one has the same time.
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            let text = StreamedText::open(&path, is_held).unwrap();
            let mut bytes = [0; 4];
            text.read(2, &mut bytes).unwrap();
            assert_eq!(&bytes, b"me t");
            change(&path);
            assert!(matches!(text.read(2, &mut bytes), Err(TextError::Changed(_))));
        }
        for is_held in [true, false] {
            let path = written(folder.path(), b"some text");
            let text = StreamedText::open(&path, is_held).unwrap();
            let other = folder.path().join("other");
            fs::write(&other, "same size").unwrap();
            fs::rename(&other, &path).unwrap();
            let mut bytes = [0; 9];
            let read = text.read(0, &mut bytes);
            assert_eq!(read.is_ok(), is_held, "{read:?}");
            assert!(!is_held || &bytes == b"some text");
        }
    }

    #[test]
    fn an_empty_text_has_no_byte() {
        let folder = tempfile::tempdir().unwrap();
        let text = StreamedText::open(&written(folder.path(), b""), true).unwrap();
        assert_eq!((text.num_bytes(), text.largest_byte(), text.whole().unwrap()), (0, None, String::new()));
    }
}
