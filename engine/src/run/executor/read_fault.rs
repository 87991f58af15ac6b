//! Why the tokens of a step could not be read.

use crate::run::data::{BatchError, DataError};

/// A micro-batch that could not be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("reading micro-batch {micro_batch}: {error}")]
pub(super) struct ReadFault {
    pub(super) micro_batch: usize,
    pub(super) error: DataError,
}

impl DataError {
    /// What a source's error is about: of the run's own sources a file, with what is wrong with it.
    pub(crate) fn of_source(error: BatchError) -> Self {
        match error.downcast() {
            Ok(error) => Self::Tokens(*error),
            Err(error) => Self::UserSource(error),
        }
    }
}
