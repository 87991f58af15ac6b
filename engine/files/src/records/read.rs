//! Reads the next record of a file.

use std::io::{self, BufRead};

use super::RECORD_BYTES_MAX;
use super::entry::{Brackets, is_space};
use super::error::{RecordError, RecordFault};
use super::layout::{Layout, MARK, mark_len};

/// A document of a file, or what may be one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its text: without what stands between two records, and without the file's byte order mark. Behind the last record it may be empty.
    pub text: String,
    /// The bytes of the file that were read for it, what stands before and behind it included.
    pub bytes: Vec<u8>,
    /// Line breaks before it among these.
    pub lines_before: u64,
    /// Whether the file has no other behind it.
    pub is_last: bool,
}

/// Bytes of a record, and where its text begins and ends among them.
struct Cut {
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
    is_last: bool,
}

/// Reads the next record; `is_first` says that the file is read from its beginning.
///
/// # Errors
/// See [`RecordFault`]. The reader then stands somewhere behind the mistake.
pub fn read(from: &mut impl BufRead, layout: &Layout, is_first: bool) -> Result<Record, RecordError> {
    let cut = match layout {
        Layout::Whole => separated(from, None, RecordFault::LongText)?,
        Layout::Separated(separator) => separated(from, Some(separator.as_bytes()), RecordFault::LongText)?,
        Layout::Lines => separated(from, Some(b"\n"), RecordFault::LongLine)?,
        Layout::Values => entry(from, is_first, None)?,
        Layout::List => entry(from, is_first, Some(Place::of(is_first)))?,
    };
    let Cut { bytes, begin, end, is_last } = cut;
    let begin = if is_first && begin == 0 { mark_len(&bytes[..end]) } else { begin };
    let lines_before = count_lines(&bytes[..begin]);
    match str::from_utf8(&bytes[begin..end]) {
        Ok(text) => Ok(Record { text: text.to_owned(), lines_before, is_last, bytes }),
        Err(error) => {
            let fault = RecordFault::NotUtf8 { offset: error.valid_up_to() };
            Err(RecordError { lines_before, fault })
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Reads up to and with a separator, or to the end.
fn separated(
    from: &mut impl BufRead,
    separator: Option<&[u8]>,
    too_long: RecordFault,
) -> Result<Cut, RecordError> {
    let mut bytes = Vec::new();
    loop {
        let available = available(from)?;
        if available.is_empty() {
            let end = bytes.len();
            return Ok(Cut { bytes, begin: 0, end, is_last: true });
        }
        // Up to the separator's last byte, where the whole one may end.
        let last = separator.and_then(|separator| separator.last());
        let found = last.and_then(|last| available.iter().position(|byte| byte == last));
        let len = found.map_or(available.len(), |at| at + 1);
        bytes.extend_from_slice(&available[..len]);
        from.consume(len);
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordError { lines_before: 0, fault: too_long });
        }
        if let Some(separator) = separator.filter(|separator| bytes.ends_with(separator)) {
            let end = bytes.len() - separator.len();
            return Ok(Cut { bytes, begin: 0, end, is_last: false });
        }
    }
}

/// How far a list has been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    BeforeList,
    /// Behind its bracket, where it may end at once.
    Begun,
    BeforeEntry,
    BehindEntry,
    BehindList,
}

impl Place {
    fn of(is_first: bool) -> Self {
        if is_first { Self::BeforeList } else { Self::BehindEntry }
    }
}

/// Reads the next value, with white space and, in a list, brackets and commas before it.
fn entry(from: &mut impl BufRead, is_first: bool, place: Option<Place>) -> Result<Cut, RecordError> {
    let mut bytes = Vec::new();
    if is_first {
        take_mark(from, &mut bytes)?;
    }
    let is_there = match skip_to_entry(from, &mut bytes, place) {
        Ok(is_there) => is_there,
        Err(fault) => return Err(RecordError { lines_before: count_lines(&bytes), fault }),
    };
    let begin = bytes.len();
    let is_last = !is_there || take_value(from, &mut bytes)?;
    if bytes.len() > RECORD_BYTES_MAX {
        let fault = RecordFault::LongEntry;
        return Err(RecordError { lines_before: count_lines(&bytes[..begin]), fault });
    }
    Ok(Cut { end: bytes.len(), bytes, begin, is_last })
}

fn take_mark(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<()> {
    // What is no whole mark is no JSON either, and is said to be none.
    for byte in MARK {
        if available(from)?.first() != Some(&byte) {
            break;
        }
        bytes.push(byte);
        from.consume(1);
    }
    Ok(())
}

/// Reads what stands before a value; whether there is one.
fn skip_to_entry(
    from: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    mut place: Option<Place>,
) -> Result<bool, RecordFault> {
    while let Some(&byte) = available(from)?.first() {
        if !is_space(byte) {
            let Some(in_list) = place else { return Ok(true) };
            let Some(next) = next_place(in_list, byte)? else { return Ok(true) };
            place = Some(next);
        }
        // No other record follows a list: of what does, only line breaks are kept, to count them.
        if place != Some(Place::BehindList) || byte == b'\n' {
            bytes.push(byte);
        }
        from.consume(1);
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordFault::LongEntry);
        }
    }
    match place {
        None | Some(Place::BehindList) => Ok(false),
        Some(_) => Err(RecordFault::OpenList),
    }
}

/// Reads a value to its end, or one byte more than may be read; whether the file ended first, and perhaps cut it short, which is for the parser to see.
fn take_value(from: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    let mut brackets = Brackets::default();
    loop {
        let available = available(from)?;
        if available.is_empty() {
            return Ok(true);
        }
        let room = RECORD_BYTES_MAX + 1 - bytes.len();
        let mut len = 0;
        let mut has_ended = false;
        for &byte in &available[..available.len().min(room)] {
            if brackets.ends_before(byte) {
                has_ended = true;
                break;
            }
            len += 1;
            if brackets.ends_with(byte) {
                has_ended = true;
                break;
            }
        }
        bytes.extend_from_slice(&available[..len]);
        from.consume(len);
        if has_ended || bytes.len() > RECORD_BYTES_MAX {
            return Ok(false);
        }
    }
}

/// How far a list has been read once this byte, which is no white space, has been; `None` if an entry begins with it.
fn next_place(place: Place, byte: u8) -> Result<Option<Place>, RecordFault> {
    let wanted = |wanted| Err(RecordFault::List { found: printed(byte), wanted });
    match (place, byte) {
        (Place::BeforeList, b'[') => Ok(Some(Place::Begun)),
        (Place::BeforeList, _) => wanted("the `[` of a list"),
        (Place::Begun | Place::BehindEntry, b']') => Ok(Some(Place::BehindList)),
        (Place::BehindEntry, b',') => Ok(Some(Place::BeforeEntry)),
        (Place::BehindEntry, _) => wanted("a comma or the end of the list"),
        (Place::Begun | Place::BeforeEntry, b',' | b']') => wanted("an entry"),
        (Place::Begun | Place::BeforeEntry, _) => Ok(None),
        (Place::BehindList, _) => Err(RecordFault::BehindList { found: printed(byte) }),
    }
}

/// A byte as messages show it.
fn printed(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { char::REPLACEMENT_CHARACTER }
}

/// Bytes that were read and not consumed; there are none only at the end of the file.
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
