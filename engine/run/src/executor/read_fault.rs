//! Why the tokens of a step could not be read.

use crate::data::DataError;

/// A micro-batch that could not be read, and why.
#[derive(Debug, thiserror::Error)]
#[error("reading micro-batch {micro_batch}: {error}")]
pub(super) struct ReadFault {
    pub(super) micro_batch: usize,
    pub(super) error: DataError,
}
