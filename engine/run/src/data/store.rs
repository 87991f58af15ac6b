//! Tokens in one place on disk: the bytes of a file of text, the tokens of one, or a file of tokens.

use std::ops::Range;

use pipezero_tokens::{FoundAs, KeptTokens, StreamedText, TokenFile};
use xxhash_rust::xxh3::Xxh3;

use super::documents::Documents;
use super::read_error::ReadError;
use super::window::Window;

/// Tokens that lie together.
#[derive(Debug)]
pub(super) enum Store {
    /// A file of text whose tokens are its bytes: one document.
    Text(StreamedText),
    /// A file of text as tokens: one document.
    Tokens(KeptTokens),
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
            Self::Text(text) => text.num_bytes(),
            Self::Tokens(tokens) => tokens.num_tokens(),
            Self::Documents(documents) => documents.tokens.num_tokens(),
            Self::File(file) => file.num_tokens(),
        }
    }

    /// Where documents end, in tokens, if the parts of a split are documents; `None` where it is cut into blocks.
    pub(super) fn documents(&self) -> Option<&[u64]> {
        match self {
            Self::File(file) if file.found_as() == FoundAs::Indexed || file.document_ends().len() > 1 => {
                Some(file.document_ends())
            }
            Self::Documents(documents) => Some(&documents.marks.ends),
            Self::Text(_) | Self::Tokens(_) | Self::File(_) => None,
        }
    }

    /// Reads the tokens from `position` on to a range of a window, and marks there what begins a document and what carries no loss.
    pub(super) fn read(
        &self,
        position: u64,
        window: &mut Window,
        to: Range<usize>,
        vocab_size: usize,
    ) -> Result<(), ReadError> {
        match self {
            Self::Text(text) => {
                let mut bytes = vec![0; to.len()];
                text.read(position, &mut bytes)?;
                for (token, byte) in window.tokens[to].iter_mut().zip(bytes) {
                    *token = u32::from(byte);
                }
            }
            Self::Tokens(tokens) => tokens.read(position, &mut window.tokens[to])?,
            Self::Documents(Documents { tokens, marks }) => {
                tokens.read(position, &mut window.tokens[to.clone()])?;
                mark(window, position, to, &marks.ends, &marks.unscored);
            }
            Self::File(file) => {
                file.read(position, &mut window.tokens[to.clone()], vocab_size)?;
                mark(window, position, to, file.document_ends(), file.unscored());
            }
        }
        Ok(())
    }

    /// The largest token of a text; files of tokens are looked at when they are read.
    pub(super) fn largest_of_text(&self) -> Option<u32> {
        match self {
            Self::Text(text) => text.largest_byte().map(u32::from),
            Self::Tokens(tokens) | Self::Documents(Documents { tokens, .. }) => tokens.largest(),
            Self::File(_) => None,
        }
    }

    /// Adds what tells a part from others to a checksum: all of a text; of a file of tokens where the part and its documents lie. What tokens
    /// they are is for [`Store::add_block_to`].
    pub(super) fn add_to(&self, checksum: &mut Xxh3, range: Range<u64>) -> Result<(), ReadError> {
        match self {
            Self::Text(text) => text.each_block(range, |bytes| checksum.update(bytes))?,
            Self::Tokens(tokens) => tokens.each_block(range, |bytes| checksum.update(bytes))?,
            Self::Documents(documents) => documents.add_to(checksum, range)?,
            Self::File(file) => {
                checksum.update(&[range.start, range.end].map(u64::to_le_bytes).concat());
                let ends = file.document_ends();
                let first = ends.partition_point(|&end| end <= range.start);
                let inside = ends[first..].iter().take_while(|&&end| end < range.end);
                inside.for_each(|end| checksum.update(&end.to_le_bytes()));
            }
        }
        Ok(())
    }

    /// Adds the block of a file of tokens that begins at a token, or what there is of it.
    pub(super) fn add_block_to(&self, checksum: &mut Xxh3, position: u64) -> Result<(), ReadError> {
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

#[cfg(test)]
impl Store {
    /// Each byte as a token, for tests of what is read from a store.
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        let mut keeper = pipezero_tokens::TokenKeeper::new().unwrap();
        keeper.begin();
        keeper.append(&bytes.iter().map(|&byte| u32::from(byte)).collect::<Vec<_>>()).unwrap();
        Self::Tokens(keeper.finish().unwrap().remove(0))
    }
}
