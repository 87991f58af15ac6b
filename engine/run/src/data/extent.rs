//! How much data there is, and whether that is enough: the rules that need nothing but lengths.

use pipezero_config::DataConfig;
use pipezero_tokens::TokenFile;

use super::data_error::DataError;
use super::split::{SplitError, check_length};
use super::store::Store;

/// Tokens of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) num_tokens: u64,
    /// Those that carry loss.
    pub(super) num_scored: u64,
}

impl Extent {
    /// Of text, all of which carries loss.
    pub(super) fn of_text(num_tokens: u64) -> Self {
        Self { num_tokens, num_scored: num_tokens }
    }

    pub(super) fn of_file(file: &TokenFile) -> Self {
        let num_unscored: u64 = file.unscored().iter().map(|range| range.end - range.start).sum();
        Self { num_tokens: file.num_tokens(), num_scored: file.num_tokens() - num_unscored }
    }

    pub(super) fn of_store(store: &Store) -> Self {
        match store {
            Store::File(file) => Self::of_file(file),
            Store::Documents(documents) => {
                let num_tokens = store.num_tokens();
                Self { num_tokens, num_scored: num_tokens - documents.marks.num_unscored() }
            }
            Store::Text(_) | Store::Tokens(_) => Self::of_text(store.num_tokens()),
        }
    }

    fn of_all(extents: &[Self]) -> Self {
        let sum = |of: fn(&Self) -> u64| extents.iter().map(of).sum();
        Self { num_tokens: sum(|extent| extent.num_tokens), num_scored: sum(|extent| extent.num_scored) }
    }

    /// Refuses what no split gives each side that is wanted a sequence and its last target of, and what has nothing to learn.
    fn check(self, validation: f64, seq_length: usize) -> Result<(), SplitError> {
        let Self { num_tokens, num_scored } = self;
        check_length(num_tokens, validation, seq_length)?;
        if num_scored == 0 { Err(SplitError::NoLoss { num_tokens }) } else { Ok(()) }
    }
}

/// Refuses data with too few tokens for a run: `main` is what is trained on and held out from, `validation` what is named as such.
///
/// # Errors
/// [`DataError::Split`], [`DataError::SplitTokens`], [`DataError::Source`], or one of these within [`DataError::Validation`].
pub(super) fn check(
    config: &DataConfig,
    seq_length: usize,
    main: &[Extent],
    validation: &[Extent],
) -> Result<(), DataError> {
    if config.files.weights.is_empty() {
        let in_key = if config.files.tokens.is_empty() { DataError::Split } else { DataError::SplitTokens };
        Extent::of_all(main).check(config.validation, seq_length).map_err(in_key)?;
    } else {
        for (number, extent) in (1..).zip(main) {
            let in_file = |error| DataError::Source { number, error };
            extent.check(config.validation, seq_length).map_err(in_file)?;
        }
    }
    if validation.is_empty() {
        return Ok(());
    }
    let in_key = |error| DataError::Validation(Box::new(DataError::SplitTokens(error)));
    Extent::of_all(validation).check(0.0, seq_length).map_err(in_key)
}
