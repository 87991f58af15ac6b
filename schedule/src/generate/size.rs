//! The sizes that every generator takes, checked once.

use alloc::vec::Vec;
use core::fmt;

use crate::id::{MicroBatch, Stage};
use crate::order::{ComputeKind, ComputeOrder, StageAction};
use crate::placement::Placement;

/// Forwards of a step, over all stages, that an order may have: 2^28 of them fill some gigabytes, and no step has
/// a hundredth of that.
const FORWARDS_MAX: u64 = 1 << 28;

/// Why sizes do not make a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeError {
    /// The pipeline has no rank.
    NoRank,
    /// The step has no micro-batch.
    NoMicroBatch,
    /// Stages times micro-batches are more than a program can number.
    TooLarge {
        /// Stages of the pipeline.
        num_stages: u64,
        /// Micro-batches of a step.
        num_micro_batches: u32,
    },
    /// A schedule of several stages per rank was asked for with fewer than two.
    TooFewVirtualStages {
        /// The schedule.
        schedule: &'static str,
        /// Stages per rank that were asked for.
        num_virtual: u32,
        /// The schedule that it is with one stage per rank.
        instead: &'static str,
    },
    /// A group is shorter than the pipeline.
    GroupBelowRanks {
        /// Micro-batches of a group.
        group_size: u32,
        /// Pipeline ranks.
        num_ranks: u32,
    },
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRank => f.write_str("a pipeline of 0 ranks: it needs at least 1"),
            Self::NoMicroBatch => f.write_str("a step of 0 micro-batches: it needs at least 1"),
            Self::TooLarge { num_stages, num_micro_batches } => write!(
                f,
                "{num_stages} stages times {num_micro_batches} micro-batches: a step has at most {FORWARDS_MAX} \
                 forwards; use fewer of either"
            ),
            Self::TooFewVirtualStages { schedule, num_virtual, instead } => write!(
                f,
                "`{schedule}` with {num_virtual} virtual stages per rank: it needs at least 2; with 1 it is \
                 `{instead}`, so ask for that"
            ),
            Self::GroupBelowRanks { group_size, num_ranks } => write!(
                f,
                "groups of {group_size} micro-batches on {num_ranks} ranks: the first micro-batch of a group comes \
                 back to a rank after {num_ranks} forwards, and a rank that turns to its next stage earlier waits \
                 for it, in the worst case for ever; use at least {num_ranks}"
            ),
        }
    }
}

impl core::error::Error for SizeError {}

/// The order with one stage on each rank and these rows, by stage, if the sizes make a schedule.
pub(super) fn linear(
    num_ranks: u32,
    num_micro_batches: u32,
    row: impl FnMut(u32) -> Vec<StageAction>,
) -> Result<ComputeOrder, SizeError> {
    check(u64::from(num_ranks), num_micro_batches)?;
    let placement = Placement::linear(num_ranks).map_err(|_| SizeError::NoRank)?;
    Ok(ComputeOrder { placement, num_micro_batches, rows: (0..num_ranks).map(row).collect() })
}

/// The looped placement of a schedule that is `instead` with one stage per rank.
pub(super) fn looped(
    num_ranks: u32,
    num_virtual: u32,
    num_micro_batches: u32,
    schedule: &'static str,
    instead: &'static str,
) -> Result<Placement, SizeError> {
    check(u64::from(num_ranks) * u64::from(num_virtual.max(1)), num_micro_batches)?;
    if num_virtual < 2 {
        return Err(SizeError::TooFewVirtualStages { schedule, num_virtual, instead });
    }
    Placement::looped(num_ranks, num_virtual).map_err(|_| SizeError::NoRank)
}

/// Whether a pipeline of so many stages runs so many micro-batches.
pub(super) fn check(num_stages: u64, num_micro_batches: u32) -> Result<(), SizeError> {
    if num_stages == 0 {
        return Err(SizeError::NoRank);
    }
    if num_micro_batches == 0 {
        return Err(SizeError::NoMicroBatch);
    }
    // A product of u32s and a cap: the first factor alone may exceed it, and then the product is not asked for.
    if num_stages > FORWARDS_MAX || num_stages * u64::from(num_micro_batches) > FORWARDS_MAX {
        return Err(SizeError::TooLarge { num_stages, num_micro_batches });
    }
    Ok(())
}

pub(super) fn forward(stage: u32, micro_batch: u32) -> StageAction {
    action(ComputeKind::Forward, stage, micro_batch)
}

pub(super) fn backward(stage: u32, micro_batch: u32) -> StageAction {
    action(ComputeKind::Backward, stage, micro_batch)
}

pub(super) fn backward_input(stage: u32, micro_batch: u32) -> StageAction {
    action(ComputeKind::BackwardInput, stage, micro_batch)
}

pub(super) fn backward_weight(stage: u32, micro_batch: u32) -> StageAction {
    action(ComputeKind::BackwardWeight, stage, micro_batch)
}

fn action(kind: ComputeKind, stage: u32, micro_batch: u32) -> StageAction {
    StageAction { kind, stage: Stage(stage), micro_batch: MicroBatch(micro_batch) }
}
