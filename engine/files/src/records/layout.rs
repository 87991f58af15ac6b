//! How the documents of a file follow each other: its name says whether it is JSON, and its first bytes say in which form.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use crate::opened::open_regular;

use super::entry::{Brackets, is_space};

/// How the documents of a file follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The file is one text.
    Whole,
    /// Texts with this between them.
    Separated(String),
    /// A value of JSON on each line.
    Lines,
    /// Values of JSON one after the other, each on as many lines as it likes.
    Values,
    /// One list in JSON, whose entries are documents.
    List,
}

/// The mark by which some editors say that a file is UTF-8.
pub(super) const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Bytes at the beginning of a file of another name that are looked at.
const LOOKED_AT: u64 = 4096;

/// Whether a file is JSON, as its name says: `.json`, or `.jsonl` and `.ndjson`, which hold a value on each line.
pub fn is_json(path: &Path) -> bool {
    is_json_lines(path) || has_ending(path, "json")
}

/// Whether a file holds a value of JSON on each line, as its name says.
pub fn is_json_lines(path: &Path) -> bool {
    has_ending(path, "jsonl") || has_ending(path, "ndjson")
}

fn has_ending(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(wanted))
}

impl Layout {
    /// Looks at a file as far as its form needs: at the name and, where that says JSON, at the first value or line.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of(path: &Path, separator: Option<&str>) -> io::Result<Self> {
        if !is_json(path) {
            return Ok(separator.map_or(Self::Whole, |separator| Self::Separated(separator.to_owned())));
        }
        Self::of_json(&mut BufReader::new(open_regular(path)?), is_json_lines(path))
    }

    /// That of JSON from its beginning on. A file that is said to have a value on each line has one, unless it is a list: then a mistake is one
    /// of its line, and spoils no other.
    pub(super) fn of_json(from: &mut impl BufRead, says_lines: bool) -> io::Result<Self> {
        let mut brackets = Brackets::default();
        // Whether the first value has ended, with nothing but its line's end to come.
        let mut has_ended = false;
        let mut num_bytes = 0;
        loop {
            let bytes = from.fill_buf()?;
            if bytes.is_empty() {
                return Ok(Self::Lines);
            }
            for &byte in bytes {
                let is_mark = num_bytes < MARK.len() && byte == MARK[num_bytes];
                num_bytes += 1;
                if brackets.is_before_value() && (is_mark || is_space(byte)) {
                    continue;
                }
                if brackets.is_before_value() {
                    match byte {
                        b'[' => return Ok(Self::List),
                        b'{' if !says_lines => {}
                        _ => return Ok(Self::Lines),
                    }
                }
                if has_ended {
                    match byte {
                        b'\n' => return Ok(Self::Lines),
                        byte if is_space(byte) => continue,
                        _ => return Ok(Self::Values),
                    }
                }
                if byte == b'\n' {
                    // No string holds a line break, so this one was not closed on its line.
                    return Ok(if brackets.is_in_string() { Self::Lines } else { Self::Values });
                }
                has_ended = brackets.ends_with(byte);
            }
            let len = bytes.len();
            from.consume(len);
            if num_bytes > super::RECORD_BYTES_MAX {
                return Ok(Self::Lines);
            }
        }
    }

    /// Whether its documents are values of JSON.
    pub fn is_json(&self) -> bool {
        match self {
            Self::Whole | Self::Separated(_) => false,
            Self::Lines | Self::Values | Self::List => true,
        }
    }
}

/// Whether a file whose name does not say JSON begins with an object of JSON, or a list of objects, as far as its first bytes tell; `false` where it
/// cannot be read.
pub fn begins_as_json(path: &Path) -> bool {
    let mut bytes = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(LOOKED_AT).read_to_end(&mut bytes));
    if read.is_err() || is_json(path) {
        return false;
    }
    let bytes = bytes.strip_prefix(&MARK).unwrap_or(&bytes);
    let mut rest = bytes.iter().copied().filter(|&byte| !is_space(byte)).peekable();
    if rest.peek() == Some(&b'[') {
        rest.next();
    }
    // An object, its first key in quotes, and a colon behind the key.
    if rest.next() != Some(b'{') || rest.next() != Some(b'"') {
        return false;
    }
    rest.skip_while(|&byte| byte != b'"').nth(1) == Some(b':')
}

/// How many of the first bytes are a byte order mark.
pub(super) fn mark_len(bytes: &[u8]) -> usize {
    if bytes.starts_with(&MARK) { MARK.len() } else { 0 }
}
