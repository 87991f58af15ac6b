//! Documents in memory: their tokens, where each ends, and which of them carry no loss.

use std::ops::Range;

use pipezero_tokens::documents::Document;
use xxhash_rust::xxh3::Xxh3;

/// Documents one after the other.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) tokens: Vec<u32>,
    /// Where each ends, in tokens, ascending.
    pub(super) ends: Vec<u64>,
    /// Tokens that carry no loss, ascending.
    pub(super) unscored: Vec<Range<u64>>,
}

impl Documents {
    /// Appends a document; one without a token is left out.
    pub(super) fn push(&mut self, document: Document) {
        let before = self.tokens.len();
        for (tokens, has_loss) in document.parts {
            let begin = self.tokens.len() as u64;
            self.tokens.extend(tokens);
            let range = begin..self.tokens.len() as u64;
            if !has_loss && !range.is_empty() {
                self.unscored.push(range);
            }
        }
        if self.tokens.len() > before {
            self.ends.push(self.tokens.len() as u64);
        }
    }

    /// Adds what tells a part from others to a checksum: its tokens, where its documents end, and which tokens carry no loss.
    pub(super) fn add_to(&self, checksum: &mut Xxh3, range: Range<u64>) {
        let within = range.start as usize..range.end as usize;
        self.tokens[within].iter().for_each(|token| checksum.update(&token.to_le_bytes()));
        let first = self.ends.partition_point(|&end| end <= range.start);
        let inside = self.ends[first..].iter().take_while(|&&end| end < range.end);
        inside.for_each(|end| checksum.update(&end.to_le_bytes()));
        let first = self.unscored.partition_point(|unscored| unscored.end <= range.start);
        let inside = self.unscored[first..].iter().take_while(|unscored| unscored.start < range.end);
        inside.for_each(|unscored| {
            checksum.update(&[unscored.start, unscored.end].map(u64::to_le_bytes).concat());
        });
    }
}
