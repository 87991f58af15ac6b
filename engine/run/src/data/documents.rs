//! Documents of a file of JSON: their tokens, where each ends, and which of them carry no loss.

use std::ops::Range;

use pipezero_tokens::documents::Document;
use pipezero_tokens::text::TextError;
use pipezero_tokens::{KeptTokens, TokenKeeper};
use xxhash_rust::xxh3::Xxh3;

/// Documents one after the other.
#[derive(Debug)]
pub(super) struct Documents {
    pub(super) tokens: KeptTokens,
    pub(super) marks: Marks,
}

/// What is known of tokens beside what they are.
#[derive(Debug, Default)]
pub(super) struct Marks {
    num_tokens: u64,
    /// Where each document ends, in tokens, ascending.
    pub(super) ends: Vec<u64>,
    /// Tokens that carry no loss, ascending.
    pub(super) unscored: Vec<Range<u64>>,
}

impl Marks {
    /// Appends a document, whose tokens are kept; one without a token is left out.
    pub(super) fn push(&mut self, document: Document, keeper: &mut TokenKeeper) -> Result<(), TextError> {
        let before = self.num_tokens;
        for (tokens, has_loss) in document.parts {
            let begin = self.num_tokens;
            keeper.append(&tokens)?;
            self.num_tokens += tokens.len() as u64;
            if !has_loss && !tokens.is_empty() {
                self.unscored.push(begin..self.num_tokens);
            }
        }
        if self.num_tokens > before {
            self.ends.push(self.num_tokens);
        }
        Ok(())
    }

    /// How many tokens carry no loss.
    pub(super) fn num_unscored(&self) -> u64 {
        self.unscored.iter().map(|range| range.end - range.start).sum()
    }
}

impl Documents {
    /// Adds what tells a part from others to a checksum: its tokens, where its documents end, and which tokens carry no loss.
    pub(super) fn add_to(&self, checksum: &mut Xxh3, range: Range<u64>) -> Result<(), TextError> {
        let Self { tokens, marks: Marks { ends, unscored, .. } } = self;
        tokens.each_block(range.clone(), |bytes| checksum.update(bytes))?;
        let first = ends.partition_point(|&end| end <= range.start);
        let inside = ends[first..].iter().take_while(|&&end| end < range.end);
        inside.for_each(|end| checksum.update(&end.to_le_bytes()));
        let first = unscored.partition_point(|unscored| unscored.end <= range.start);
        let inside = unscored[first..].iter().take_while(|unscored| unscored.start < range.end);
        inside.for_each(|unscored| {
            checksum.update(&[unscored.start, unscored.end].map(u64::to_le_bytes).concat());
        });
        Ok(())
    }
}
