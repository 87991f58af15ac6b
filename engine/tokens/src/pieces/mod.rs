//! Finds places where a long text may be cut: its pieces have exactly the tokens of the whole.
//!
//! The library tokenizes a text at once and takes more than a hundred bytes for each of its bytes meanwhile. So a long text is cut into pieces. A cut
//! between two characters is allowed only if each part of the tokenizer is known to do the same with the pieces as with the whole:
//!
//! ```text
//! added tokens   none contains the two characters one after the other, takes white space across the cut, or looks for a letter there
//! normalizer     it changes each of the two characters by itself, whatever its neighbours are
//! pre-tokenizer  a word ends at the cut, and nothing that lies behind the cut is looked at before it, or the other way around
//! model          it sees one word at a time, so it does not matter
//! ```
//!
//! This follows from what the file says, and not from a trial. Rejected: to tokenize pieces that overlap and to join them where both have the same tokens, since
//! an expression may look as far ahead as it likes. Where nothing is known of a part, the text is tokenized as a whole.

mod added;
mod around;
mod cuts;
mod normalized;
mod pattern;
mod steps;
#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::{AddedToken, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};

use around::Around;
use cuts::Cuts;

use super::catch_panics::catch_panic;
use super::character_maps::check_character_maps;

/// Bytes of a piece, more or less: few enough that tokenizing one takes little memory, and enough that no time is lost.
pub(super) const PIECE_BYTES: usize = 1 << 18;

/// Bytes within which a text must have a place where it may be cut, if its tokenizer is one that can cut all usual texts.
pub(super) const STRETCH_BYTES: usize = 4 << 20;

/// How a tokenizer's texts are cut, and what it writes around them.
#[derive(Debug)]
pub(super) struct Pieces {
    cuts: Cuts,
    around: Around,
    /// Bytes of the longest piece, if all usual texts can be cut.
    longest: Option<usize>,
}

impl Pieces {
    /// Takes the parts of a tokenizer; `None` if texts must be tokenized as a whole.
    pub(super) fn of(
        normalizer: Option<&NormalizerWrapper>,
        pre_tokenizer: Option<&PreTokenizerWrapper>,
        post_processor: Option<&PostProcessorWrapper>,
        added: impl Iterator<Item = AddedToken>,
    ) -> Option<Self> {
        let cuts = Cuts::of(normalizer.cloned(), pre_tokenizer, added)?;
        let around = Around::of(post_processor)?;
        let longest = cuts.are_usual().then_some(STRETCH_BYTES);
        Some(Self { cuts, around, longest })
    }

    /// Reads the parts from a tokenizer.json, without its model.
    pub(super) fn of_json(bytes: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(default)]
        #[derive(Default)]
        struct Parts {
            normalizer: Value,
            pre_tokenizer: Value,
            post_processor: Value,
            added_tokens: Value,
        }
        fn read<T: DeserializeOwned>(part: Value) -> Option<T> {
            catch_panic(|| serde_json::from_value(part))?.ok()
        }
        let parts: Parts = serde_json::from_slice(bytes).ok()?;
        check_character_maps(&parts.normalizer).ok()?;
        let normalizer: Option<NormalizerWrapper> = read(parts.normalizer)?;
        let pre_tokenizer: Option<PreTokenizerWrapper> = read(parts.pre_tokenizer)?;
        let post_processor: Option<PostProcessorWrapper> = read(parts.post_processor)?;
        let added: Option<Vec<AddedToken>> = read(parts.added_tokens)?;
        let added = added.unwrap_or_default().into_iter();
        Self::of(normalizer.as_ref(), pre_tokenizer.as_ref(), post_processor.as_ref(), added)
    }

    /// Bytes of the longest piece, if that is known for every text: longer ones are refused.
    pub(super) fn longest(&self) -> Option<usize> {
        self.longest
    }

    /// The tokens of a text, whose pieces `encode` turns into tokens; `is_whole` says that special tokens stand around them.
    ///
    /// # Errors
    /// As `encode`, and what `refused` makes of the reason why a piece is too long.
    pub(super) fn encode<E>(
        &self,
        text: &str,
        piece_bytes: usize,
        is_whole: bool,
        mut encode: impl FnMut(&str) -> Result<Vec<u32>, E>,
        refused: impl FnOnce(String) -> E,
    ) -> Result<Vec<u32>, E> {
        let pieces = self.cuts.pieces(text, piece_bytes);
        let is_refused = |piece: &&Range<usize>| self.longest.is_some_and(|longest| piece.len() > longest);
        if let Some(piece) = pieces.iter().find(is_refused) {
            return Err(refused(format!(
                "{} bytes of it, from byte {} on, have no place at which a word surely ends, and at most {STRETCH_BYTES} are tokenized at \
                 once; break the lines, or cut the text into documents",
                piece.len(),
                piece.start
            )));
        }
        let mut tokens = if is_whole { self.around.before.clone() } else { Vec::new() };
        for piece in pieces {
            tokens.extend(encode(&text[piece])?);
        }
        if is_whole {
            tokens.extend(&self.around.behind);
        }
        Ok(tokens)
    }
}
