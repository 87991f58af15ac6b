//! The vocabulary's two tables, the token embedding's and the head's: how their rows are cut into slices, and whether logits are
//! kept.

use std::ops::Range;

use crate::error::{ModelError, require};
use crate::kernels::cross_entropy::BLOCK_TOKENS;
use crate::layer::Slice;

/// What becomes of a head's logits between forward and backward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HeadLogits {
    /// They are kept: `4 N V` bytes for each micro-batch in flight.
    #[default]
    Keep,
    /// The backward computes them once more, block by block: a third more work in the head's backward. Such a backward has no
    /// halves.
    Recompute,
}

/// How the vocabulary's tables are cut, and what becomes of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VocabularyOptions {
    /// Slices of each table.
    pub num_slices: usize,
    /// What becomes of logits.
    pub head_logits: HeadLogits,
}

impl Default for VocabularyOptions {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl VocabularyOptions {
    /// Whole tables, logits kept.
    pub const WHOLE: Self = Self { num_slices: 1, head_logits: HeadLogits::Keep };

    pub(super) fn check(self, vocab_size: usize) -> Result<(), ModelError> {
        let (num_blocks, each) = (num_blocks(vocab_size), block_tokens(vocab_size));
        let rule = format!(
            "must be from 1 to {num_blocks}: slices are cut between blocks of {each} tokens, and vocab_size = {vocab_size} \
             has {num_blocks}"
        );
        require((1..=num_blocks).contains(&self.num_slices), "vocabulary_slices", self.num_slices, rule)
    }

    /// The slices, in order.
    pub(crate) fn slices(self) -> impl Iterator<Item = Slice> {
        (0..self.num_slices).map(move |index| Slice { index, num_slices: self.num_slices })
    }
}

/// A vocabulary of more tokens than these is cut into larger blocks.
const SMALL_VOCABULARY: usize = 16 * BLOCK_TOKENS;

/// Tokens whose logits a head computes and uses at once; the last block of a vocabulary may have fewer.
///
/// Each block reads and writes the gradient of the whole input once more, and a weight gradient of few rows leaves most of a GPU idle, so a
/// large vocabulary has larger blocks. The size depends on the vocabulary alone: the input's gradient is a sum over blocks, and has the same
/// bits on every grid.
pub fn block_tokens(vocab_size: usize) -> usize {
    if vocab_size <= SMALL_VOCABULARY { BLOCK_TOKENS } else { 4 * BLOCK_TOKENS }
}

/// Blocks of [`block_tokens`] that a vocabulary has: more slices than these there cannot be.
pub fn num_blocks(vocab_size: usize) -> usize {
    vocab_size.div_ceil(block_tokens(vocab_size))
}

/// The tokens of a slice: whole blocks, as many as any other slice has or one fewer.
pub(crate) fn tokens_of(slice: Slice, vocab_size: usize) -> Range<usize> {
    let Slice { index, num_slices } = slice;
    let num_blocks = num_blocks(vocab_size);
    let (each, more) = (num_blocks / num_slices, num_blocks % num_slices);
    let start = |index: usize| vocab_size.min(block_tokens(vocab_size) * (index * each + index.min(more)));
    start(index)..start(index + 1)
}

/// The blocks of a slice of a vocabulary, as tokens.
pub(super) fn blocks_of(
    tokens: Range<usize>,
    vocab_size: usize,
) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let (Range { start, end }, each) = (tokens, block_tokens(vocab_size));
    let num_blocks = (end - start).div_ceil(each);
    (0..num_blocks).map(move |block| start + block * each..end.min(start + (block + 1) * each))
}

/// The name of a slice's layer.
pub(super) fn name_of(slice: Slice, layer: &str) -> String {
    if slice == Slice::WHOLE { layer.to_owned() } else { format!("{layer}.{}", slice.index) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_whole_blocks_as_even_as_can_be_and_cover_every_token_once() {
        for vocab_size in [1, 1023, 1024, 1025, 5000, 16_384, 16_385, 50_257, 128_256] {
            for num_slices in 1..=num_blocks(vocab_size) {
                let options = VocabularyOptions { num_slices, ..VocabularyOptions::default() };
                let (mut end, mut counts) = (0, Vec::new());
                for tokens in options.slices().map(|slice| tokens_of(slice, vocab_size)) {
                    assert!(
                        tokens.start == end
                            && !tokens.is_empty()
                            && tokens.start.is_multiple_of(block_tokens(vocab_size))
                    );
                    let blocks: Vec<_> = blocks_of(tokens.clone(), vocab_size).collect();
                    assert!(blocks.iter().cloned().flatten().eq(tokens.clone()));
                    counts.push(blocks.len());
                    end = tokens.end;
                }
                assert_eq!(end, vocab_size);
                let (most, fewest) = (counts.iter().max(), counts.iter().min());
                assert!(most.zip(fewest).is_some_and(|(most, fewest)| most - fewest <= 1), "{counts:?}");
            }
        }
    }

    #[test]
    fn more_slices_than_blocks_are_refused_with_the_number_that_there_are() {
        let check = |num_slices, vocab_size| {
            VocabularyOptions { num_slices, ..VocabularyOptions::default() }.check(vocab_size)
        };
        assert!(check(3, 2049).is_ok());
        assert_eq!(
            check(4, 2049).unwrap_err().to_string(),
            "vocabulary_slices = 4: must be from 1 to 3: slices are cut between blocks of 1024 tokens, and vocab_size = 2049 has 3"
        );
        assert!(check(0, 2049).is_err());
        assert_eq!(
            check(14, 50_257).unwrap_err().to_string(),
            "vocabulary_slices = 14: must be from 1 to 13: slices are cut between blocks of 4096 tokens, and vocab_size = 50257 has 13"
        );
    }
}
