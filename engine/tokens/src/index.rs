//! Megatron's index of a `.bin`: which tokens are a sequence, and which sequences are a document.
//!
//! ```text
//! "MMIDIDX\0\0"  version u64 = 1  type u8  sequences u64 = S  documents u64 = D + 1
//! length i32 [S]       tokens of each sequence
//! pointer i64 [S]      where each begins in the .bin, in bytes
//! document i64 [D + 1] the first sequence of each document; the last entry is S
//! mode i8 [S]          only in indices of several modes
//! ```
//!
//! All numbers are little-endian (megatron/core/datasets/indexed_dataset.py). Sequences lie in the `.bin` one after the other, as each writer
//! of this format puts them. A sequence of mode 1 carries no loss: that is how a prompt is told from its completion here.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use pipezero_config::TokenType;
use pipezero_files::opened::open_regular;

use super::error::{TokenFault, TokenFileError};

pub(super) const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";

pub(super) const VERSION: u64 = 1;

/// Bytes before the first list.
const HEADER_BYTES: u64 = 34;

/// Documents without tokens that an index may have, beside as many as others and tokens allow.
const EMPTY_MAX: u64 = 1 << 20;

/// The mode of a sequence that carries no loss.
pub(super) const NO_LOSS: u8 = 1;

/// What an index says.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) token_type: TokenType,
    /// Where each document ends, in tokens.
    pub(super) ends: Vec<u64>,
    /// Tokens that carry no loss, ascending.
    pub(super) unscored: Vec<Range<u64>>,
}

impl Index {
    /// Reads an index, and compares its entries with each other.
    pub(super) fn read(path: &Path) -> Result<Self, TokenFileError> {
        let file = open_regular(path).map_err(|error| TokenFileError::new(path, error))?;
        read(&file).map_err(|fault| TokenFileError::new(path, fault))
    }
}

/// The numbers of an index before its lists.
struct Header {
    token_type: TokenType,
    num_sequences: u64,
    /// One more than there are documents.
    num_boundaries: u64,
    has_modes: bool,
}

fn read(file: &File) -> Result<Index, TokenFault> {
    let header = header(file)?;
    let (num_sequences, type_bytes) = (header.num_sequences, header.token_type.num_bytes() as u64);
    let pointers_at = HEADER_BYTES + 4 * num_sequences;
    let boundaries_at = pointers_at + 8 * num_sequences;
    let modes_at = boundaries_at + 8 * header.num_boundaries;
    let mut lengths = Numbers::<4>::at(file, HEADER_BYTES);
    let mut pointers = Numbers::<8>::at(file, pointers_at);
    let mut boundaries = Numbers::<8>::at(file, boundaries_at);
    let mut modes = Numbers::<1>::at(file, modes_at);
    let mut index = Index { token_type: header.token_type, ends: Vec::new(), unscored: Vec::new() };
    if boundaries.next()?.map(i64::from_le_bytes) != Some(0) {
        return Err(damaged("the first document does not begin with sequence 0".to_owned()));
    }
    let (mut end, mut num_read) = (0_u64, 0);
    for document in 1..header.num_boundaries {
        let boundary = boundaries.next()?.map(i64::from_le_bytes).unwrap_or(-1);
        let last = u64::try_from(boundary).ok().filter(|last| (num_read..=num_sequences).contains(last));
        let last = last.ok_or_else(|| {
            damaged(format!(
                "document {document} begins with sequence {boundary}, but {num_read} come before it and there are {num_sequences}"
            ))
        })?;
        for sequence in num_read..last {
            let length = lengths.next()?.map(i32::from_le_bytes).unwrap_or(-1);
            let pointer = pointers.next()?.map(i64::from_le_bytes).unwrap_or(-1);
            if u64::try_from(pointer) != Ok(end * type_bytes) {
                return Err(damaged(format!(
                    "sequence {sequence} begins at byte {pointer}, but those before it end at {}",
                    end * type_bytes
                )));
            }
            let length = u64::try_from(length)
                .map_err(|_| damaged(format!("sequence {sequence} has {length} tokens")))?;
            let carries_loss = !header.has_modes || modes.next()?.is_none_or(|mode| mode[0] != NO_LOSS);
            if !carries_loss && length > 0 {
                index.unscored.push(end..end + length);
            }
            end += length;
        }
        num_read = last;
        index.ends.push(end);
        // Documents without tokens cost a file that is sparse nothing, and memory here.
        if index.ends.len() as u64 > 2 * end + EMPTY_MAX {
            return Err(damaged(format!(
                "its first {document} documents have {end} tokens: nearly all of them are empty"
            )));
        }
    }
    if num_read != num_sequences {
        return Err(damaged(format!("its documents have {num_read} of {num_sequences} sequences")));
    }
    Ok(index)
}

fn header(file: &File) -> Result<Header, TokenFault> {
    let mut bytes = [0; HEADER_BYTES as usize];
    let actual = file.metadata()?.len();
    if actual < HEADER_BYTES {
        let what = "the numbers that an index begins with".to_owned();
        return Err(TokenFault::Length { actual, expected: HEADER_BYTES.into(), what });
    }
    file.read_exact_at(&mut bytes, 0)?;
    if &bytes[..9] != MAGIC {
        return Err(TokenFault::NotAnIndex);
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    match word(9) {
        VERSION => {}
        version if version.swap_bytes() == VERSION => return Err(TokenFault::Swapped),
        version => return Err(TokenFault::Version { version }),
    }
    let token_type = TokenType::from_code(bytes[17]).ok_or(TokenFault::TypeCode { code: bytes[17] })?;
    let (num_sequences, num_boundaries) = (word(18), word(26));
    let expected = u128::from(HEADER_BYTES) + 12 * u128::from(num_sequences) + 8 * u128::from(num_boundaries);
    let has_modes = u128::from(actual) == expected + u128::from(num_sequences);
    if u128::from(actual) != expected && !has_modes {
        let what = format!("{num_sequences} sequences and {num_boundaries} starts of documents");
        return Err(TokenFault::Length { actual, expected, what });
    }
    Ok(Header { token_type, num_sequences, num_boundaries, has_modes: has_modes && num_sequences > 0 })
}

fn damaged(what: String) -> TokenFault {
    TokenFault::Index { what }
}

/// Numbers of `N` bytes that lie one after the other in a file.
struct Numbers<'a, const N: usize>(BufReader<From<'a>>);

impl<'a, const N: usize> Numbers<'a, N> {
    fn at(file: &'a File, position: u64) -> Self {
        Self(BufReader::with_capacity(1 << 16, From { file, position }))
    }

    /// The next one; `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A file from a position on; several may be read at once.
struct From<'a> {
    file: &'a File,
    position: u64,
}

impl Read for From<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let num_read = self.file.read_at(bytes, self.position)?;
        self.position += num_read as u64;
        Ok(num_read)
    }
}
