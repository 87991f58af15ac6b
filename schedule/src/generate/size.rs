//! The sizes that every generator takes.

use core::fmt;

use crate::id::{MicroBatch, Stage};
use crate::order::{ComputeKind, StageAction};
use crate::placement::Placement;

/// Why there is no schedule of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeError {
    /// The pipeline has no rank.
    NoRank,
    /// The step has no micro-batch.
    NoMicroBatch,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRank => f.write_str("a pipeline of 0 ranks: it needs at least 1"),
            Self::NoMicroBatch => f.write_str("a step of 0 micro-batches: it needs at least 1"),
        }
    }
}

impl core::error::Error for SizeError {}

/// The linear placement, if both sizes are at least 1.
pub(super) fn linear(num_ranks: u32, num_micro_batches: u32) -> Result<Placement, SizeError> {
    if num_micro_batches == 0 {
        return Err(SizeError::NoMicroBatch);
    }
    Placement::linear(num_ranks).map_err(|_| SizeError::NoRank)
}

pub(super) fn forward(stage: u32, micro_batch: u32) -> StageAction {
    StageAction { kind: ComputeKind::Forward, stage: Stage(stage), micro_batch: MicroBatch(micro_batch) }
}

pub(super) fn backward(stage: u32, micro_batch: u32) -> StageAction {
    StageAction { kind: ComputeKind::Backward, stage: Stage(stage), micro_batch: MicroBatch(micro_batch) }
}
