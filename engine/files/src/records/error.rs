//! Why there is no next record.

use std::io;

use super::RECORD_BYTES_MAX;

/// Why there is no next record, and where.
#[derive(Debug)]
pub struct RecordError {
    /// Line breaks between the end of the record before and the mistake.
    pub lines_before: u64,
    /// What is wrong.
    pub fault: RecordFault,
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self { lines_before: 0, fault: RecordFault::Io(error) }
    }
}

/// Why there is no next record, and a repair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not UTF-8.
    #[error("it is not UTF-8 text, {offset} bytes from here; convert it, or leave the file out")]
    NotUtf8 {
        /// The first byte that is part of no character, counted from 0.
        offset: usize,
    },
    /// A line is too long.
    #[error("the line is longer than {} MiB; a line holds one document", RECORD_BYTES_MAX >> 20)]
    LongLine,
    /// An entry of a list, or an object, is too long.
    #[error(
        "the value that begins here is longer than {} MiB; each value is one document: write a list of shorter ones, or one a line",
        RECORD_BYTES_MAX >> 20
    )]
    LongEntry,
    /// A text is too long.
    #[error(
        "the document is longer than {} MiB: it is read whole, since its tokens depend on what stands beside them; say what stands \
         between documents, such as --separator '<|endoftext|>' or --separator '\\n\\n'",
        RECORD_BYTES_MAX >> 20
    )]
    LongText,
    /// The file ends within a list.
    #[error(
        "the file ends, and its list does not: a `]` is missing; the file was cut short, so write it again"
    )]
    OpenList,
    /// Something else stands where an entry, a comma or the end of a list must be.
    #[error("`{found}` stands where {wanted} must be; each entry of the list is one document")]
    List {
        /// The character.
        found: char,
        /// The rule.
        wanted: &'static str,
    },
    /// Something stands behind a list.
    #[error("`{found}` stands behind the list; a file holds one list, or one object on each line")]
    BehindList {
        /// The character.
        found: char,
    },
}
