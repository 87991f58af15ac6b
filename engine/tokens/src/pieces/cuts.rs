//! Between which characters a text may be cut.

use std::collections::HashMap;
use std::ops::Range;

use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper};

use super::added::Added;
use super::normalized;
use super::steps::Steps;

/// Pairs of characters between which usual texts in any language may be cut.
const USUAL: [(char, char); 4] = [('e', ' '), ('e', '\n'), ('\u{4e16}', '\n'), ('\u{4e16}', ' ')];

/// The parts of a tokenizer that decide where a text may be cut.
#[derive(Debug)]
pub(super) struct Cuts {
    normalizer: Option<NormalizerWrapper>,
    steps: Steps,
    added: Added,
}

impl Cuts {
    /// Takes the parts of a tokenizer; `None` if no place is known where texts may be cut.
    pub(super) fn of(
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<&PreTokenizerWrapper>,
        added: impl Iterator<Item = AddedToken>,
    ) -> Option<Self> {
        let steps = Steps::of(pre_tokenizer?)?;
        let added = Added::of(added, normalizer.as_ref())?;
        let cuts = Self { normalizer, steps, added };
        USUAL.iter().any(|&(before, after)| cuts.is_between(before, after)).then_some(cuts)
    }

    /// Whether all usual texts can be cut somewhere. If not, a text without a place for a cut is tokenized as a whole.
    pub(super) fn are_usual(&self) -> bool {
        USUAL.iter().all(|&(before, after)| self.is_between(before, after))
    }

    /// The ranges of bytes into which a text may be cut, each of about `piece_bytes`, and longer where there is no other way.
    pub(super) fn pieces(&self, text: &str, piece_bytes: usize) -> Vec<Range<usize>> {
        let mut known = HashMap::new();
        let (mut pieces, mut start) = (Vec::new(), 0);
        while text.len() - start > piece_bytes {
            let middle = text.floor_char_boundary(start + piece_bytes);
            let mut is_cut = |&at: &usize| {
                let before = text[..at].chars().next_back();
                before.zip(text[at..].chars().next()).is_some_and(|(before, after)| {
                    *known.entry((before, after)).or_insert_with(|| self.is_between(before, after))
                })
            };
            let places = |range: Range<usize>| range.filter(|&at| text.is_char_boundary(at));
            let earlier = places(start + 1..middle + 1).rev().find(&mut is_cut);
            let Some(end) = earlier.or_else(|| places(middle + 1..text.len()).find(is_cut)) else { break };
            pieces.push(start..end);
            start = end;
        }
        pieces.push(start..text.len());
        pieces
    }

    /// Whether a text may be cut between these two characters wherever one follows the other.
    fn is_between(&self, before: char, after: char) -> bool {
        let seen = match &self.normalizer {
            None => Some((before, after)),
            Some(normalizer) => normalized::pair(normalizer, before, after),
        };
        // Tokens are looked for before and after the normalizer.
        seen.is_some_and(|(to_left, to_right)| {
            self.added.are_apart(before, after)
                && self.added.are_apart(to_left, to_right)
                && self.steps.are_apart(to_left, to_right)
        })
    }
}
