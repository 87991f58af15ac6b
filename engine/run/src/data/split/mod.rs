//! Splits tokens into training and validation, the same way on every grid.
//!
//! A file of tokens is cut into its documents, of which one out of every `1 / share` in a row is held out. Which one is drawn, by its place
//! alone: neither long nor short documents, nor every n-th, are preferred.
//!
//! A file of text, and one of tokens whose documents are not known, is cut into blocks of [`BLOCK_TOKENS`] (its last block may be shorter).
//! The choice spreads the rounding error over the blocks, as Bresenham's line does over pixels: a block goes to validation as soon as
//! that brings validation's share closer to the wanted one. So all regions of the data appear on both sides, validation has its share to
//! within half a block, and many small files are treated like a few large ones.
//!
//! Data of so few parts that a side would have no sequence is not cut like this: its end is held out, as much as the share is and at least a
//! sequence.

use std::ops::Range;
use std::sync::Arc;

use pipezero_models::split_mix::mixed;

use super::store::Store;
use super::stream::Stream;

/// Tokens of a block: long against a sequence's context, short against a text.
pub const BLOCK_TOKENS: u64 = 4096;

/// The two sides, each with its parts in order.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    /// What is trained on.
    pub(super) training: Stream,
    /// What is held out.
    pub(super) validation: Stream,
}

/// Why the data cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SplitError {
    /// The share is not from 0 to below 1.
    #[error(
        "a validation share of {share} leaves nothing to train on; write a number from 0 to below 1, such as 0.05"
    )]
    Share {
        /// The share.
        share: f64,
    },
    /// It has no whole sequence.
    #[error(
        "the data has {num_tokens} tokens, but one sequence of seq_length {seq_length} needs {} with its last target; name more \
         data or shorten seq_length",
        seq_length.saturating_add(1)
    )]
    TooShort {
        /// Tokens of the data.
        num_tokens: u64,
        /// T: tokens of a sequence.
        seq_length: usize,
    },
    /// No token of it carries loss.
    #[error(
        "none of its {num_tokens} tokens carries loss; write it again with completions, or with a mask that has ones"
    )]
    NoLoss {
        /// Tokens of the data.
        num_tokens: u64,
    },
    /// It has no two sequences, one for each side.
    #[error(
        "the data has {num_tokens} tokens, but a sequence to train on and one to validate on, each of seq_length {seq_length}, \
         need {} with their last targets; name more data, set `data.validation` to 0 or shorten seq_length",
        seq_length.saturating_add(1).saturating_mul(2)
    )]
    TooShortToSplit {
        /// Tokens of the data.
        num_tokens: u64,
        /// T: tokens of a sequence.
        seq_length: usize,
    },
}

/// Keeps the share `validation` for validation; each side holds at least one sequence of `seq_length` tokens and its last target. A share of
/// 0 keeps nothing for validation. `which` says which of the stores are split.
///
/// # Errors
/// [`SplitError::Share`] unless `0 <= validation < 1`; [`SplitError::TooShort`], [`SplitError::TooShortToSplit`].
pub(super) fn split(
    stores: &Arc<Vec<Store>>,
    which: Range<usize>,
    validation: f64,
    seq_length: usize,
    vocab_size: usize,
) -> Result<Sides, SplitError> {
    if !(0.0..1.0).contains(&validation) {
        return Err(SplitError::Share { share: validation });
    }
    let empty = || Stream::new(Arc::clone(stores), vocab_size);
    let mut sides = Sides { training: empty(), validation: empty() };
    let (mut num_tokens, mut num_documents) = (0, 0);
    for number in which.clone() {
        let has_documents = stores[number].documents().is_some();
        for part in parts(&stores[number]) {
            let len = part.end - part.start;
            num_tokens += len;
            let is_held_out = if has_documents {
                num_documents += 1;
                is_drawn(num_documents - 1, validation)
            } else {
                let missing = validation * num_tokens as f64 - sides.validation.num_tokens() as f64;
                2.0 * missing >= len as f64
            };
            let side = if is_held_out { &mut sides.validation } else { &mut sides.training };
            side.push(number, part);
        }
    }
    let has_validation = validation > 0.0;
    let has_sequence = |side: &Stream| side.num_tokens() > seq_length as u64;
    if has_sequence(&sides.training) && (!has_validation || has_sequence(&sides.validation)) {
        return Ok(sides);
    }
    check_length(num_tokens, validation, seq_length)?;
    let needed = seq_length as u64 + 1;
    let num_held_out = ((validation * num_tokens as f64).round() as u64).clamp(needed, num_tokens - needed);
    let mut training = empty();
    which.for_each(|number| training.push(number, 0..stores[number].num_tokens()));
    let validation = training.split_off(num_held_out);
    Ok(Sides { training, validation })
}

/// Refuses data of which no split gives each side that is wanted a sequence and its last target.
///
/// # Errors
/// [`SplitError::TooShort`], [`SplitError::TooShortToSplit`].
pub(super) fn check_length(num_tokens: u64, validation: f64, seq_length: usize) -> Result<(), SplitError> {
    let needed = seq_length as u64;
    if validation > 0.0 && num_tokens / 2 <= needed {
        return Err(SplitError::TooShortToSplit { num_tokens, seq_length });
    }
    if num_tokens <= needed { Err(SplitError::TooShort { num_tokens, seq_length }) } else { Ok(()) }
}

/// Whether a document, counted from 0 over all files, is the one of its group that is held out. Group `g` begins with document `g / share`,
/// rounded up.
fn is_drawn(document: u64, share: f64) -> bool {
    if share <= 0.0 {
        return false;
    }
    let begin = |group: u64| (group as f64 / share).ceil() as u64;
    // The product may be rounded up to the next group.
    let group = (document as f64 * share) as u64;
    let group = if begin(group) > document { group - 1 } else { group };
    let group = if begin(group + 1) <= document { group + 1 } else { group };
    let size = begin(group + 1) - begin(group);
    document - begin(group) == mixed(group) % size
}

/// The parts of a store that go to one side as a whole.
fn parts(store: &Store) -> Box<dyn Iterator<Item = Range<u64>> + '_> {
    let num_tokens = store.num_tokens();
    match store.documents() {
        Some(ends) => {
            let starts = [0].into_iter().chain(ends.iter().copied());
            Box::new(starts.zip(ends).map(|(start, &end)| start..end))
        }
        None => Box::new(
            (0..num_tokens)
                .step_by(BLOCK_TOKENS as usize)
                .map(move |start| start..(start + BLOCK_TOKENS).min(num_tokens)),
        ),
    }
}

#[cfg(test)]
mod tests;
