//! Tokens in one place: the bytes of a file of text, the tokens of one, or a file of tokens.

use std::ops::Range;

use pipezero_tokens::{FoundAs, TokenFile, TokenFileError};
use xxhash_rust::xxh3::Xxh3;

use super::documents::Documents;
use super::window::Window;

/// Tokens that lie together.
#[derive(Debug)]
pub(super) enum Store {
    /// A file of text whose tokens are its bytes: one document.
    Bytes(Vec<u8>),
    /// A file of text as tokens: one document.
    Tokens(Vec<u32>),
    /// A file of JSON as tokens, of which each object is a document.
    Documents(Documents),
    /// A file of tokens.
    File(TokenFile),
}

/// Bytes of a block of a file of tokens, of which some are read for a checksum.
const BLOCK_BYTES: u64 = 4096;

impl Store {
    pub(super) fn num_tokens(&self) -> u64 {
        match self {
            Self::Bytes(text) => text.len() as u64,
            Self::Tokens(tokens) => tokens.len() as u64,
            Self::Documents(documents) => documents.tokens.len() as u64,
            Self::File(file) => file.num_tokens(),
        }
    }

    /// Where documents end, in tokens, if the parts of a split are documents; `None` where it is cut into blocks.
    pub(super) fn documents(&self) -> Option<&[u64]> {
        match self {
            Self::File(file) if file.found_as() == FoundAs::Indexed || file.document_ends().len() > 1 => {
                Some(file.document_ends())
            }
            Self::Documents(documents) => Some(&documents.ends),
            Self::Bytes(_) | Self::Tokens(_) | Self::File(_) => None,
        }
    }

    /// Reads the tokens from `position` on to a range of a window, and marks there what begins a document and what carries no loss.
    pub(super) fn read(
        &self,
        position: u64,
        window: &mut Window,
        to: Range<usize>,
        vocab_size: usize,
    ) -> Result<(), TokenFileError> {
        let from = position as usize..position as usize + to.len();
        match self {
            Self::Bytes(text) => {
                for (token, &byte) in window.tokens[to].iter_mut().zip(&text[from]) {
                    *token = u32::from(byte);
                }
            }
            Self::Tokens(tokens) => window.tokens[to].copy_from_slice(&tokens[from]),
            Self::Documents(documents) => {
                window.tokens[to.clone()].copy_from_slice(&documents.tokens[from]);
                mark(window, position, to, &documents.ends, &documents.unscored);
            }
            Self::File(file) => {
                file.read(position, &mut window.tokens[to.clone()], vocab_size)?;
                mark(window, position, to, file.document_ends(), file.unscored());
            }
        }
        Ok(())
    }

    /// Adds what tells a part from others to a checksum: all of a text; of a file of tokens where the part and its documents lie. What tokens
    /// they are is for [`Store::add_block_to`].
    pub(super) fn add_to(&self, checksum: &mut Xxh3, range: Range<u64>) {
        let within = range.start as usize..range.end as usize;
        match self {
            Self::Bytes(text) => checksum.update(&text[within]),
            Self::Tokens(tokens) => {
                tokens[within].iter().for_each(|token| checksum.update(&token.to_le_bytes()))
            }
            Self::Documents(documents) => documents.add_to(checksum, range),
            Self::File(file) => {
                checksum.update(&[range.start, range.end].map(u64::to_le_bytes).concat());
                let ends = file.document_ends();
                let first = ends.partition_point(|&end| end <= range.start);
                let inside = ends[first..].iter().take_while(|&&end| end < range.end);
                inside.for_each(|end| checksum.update(&end.to_le_bytes()));
            }
        }
    }

    /// Adds the block of a file of tokens that begins at a token, or what there is of it.
    pub(super) fn add_block_to(&self, checksum: &mut Xxh3, position: u64) -> Result<(), TokenFileError> {
        let Self::File(file) = self else { return Ok(()) };
        let type_bytes = file.token_type().num_bytes() as u64;
        let num_tokens = (BLOCK_BYTES / type_bytes).min(file.num_tokens() - position);
        let mut bytes = vec![0; (num_tokens * type_bytes) as usize];
        file.read_bytes(position, &mut bytes)?;
        checksum.update(&bytes);
        Ok(())
    }
}

/// Marks in a range of a window, whose tokens lie from `position` on in their store, what begins a document and what carries no loss.
fn mark(window: &mut Window, position: u64, to: Range<usize>, ends: &[u64], unscored: &[Range<u64>]) {
    let end = position + to.len() as u64;
    let inside = |at: u64| to.start + (at - position) as usize;
    // A document begins where another one ends.
    let first = ends.partition_point(|&begin| begin < position);
    for &begin in ends[first..].iter().take_while(|&&begin| begin < end) {
        window.begins_document[inside(begin)] = true;
    }
    let first = unscored.partition_point(|range| range.end <= position);
    for range in unscored[first..].iter().take_while(|range| range.start < end) {
        let marked = inside(range.start.max(position))..inside(range.end.min(end));
        window.has_loss[marked].fill(false);
    }
}
