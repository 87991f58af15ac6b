//! Why a compute order cannot be lowered.

use alloc::vec::Vec;
use core::fmt;

use super::stuck::StuckRank;
use crate::chain::ChainError;
use crate::id::{PipelineRank, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::OptionsError;
use crate::order::StageAction;

/// Why a compute order cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowerError {
    /// The units are not a chain over the order's stages.
    Chain(ChainError),
    /// The options contradict each other.
    Options(OptionsError),
    /// The order has not one row per rank.
    NumRows {
        /// Its rows.
        num_rows: usize,
        /// The placement's ranks.
        num_ranks: usize,
    },
    /// An action stands on a rank that does not hold its stage, or names a stage or micro-batch that does not
    /// exist.
    Misplaced {
        /// The rank.
        rank: PipelineRank,
        /// The action.
        action: StageAction,
    },
    /// The order splits the backward of a unit that recomputes.
    SplitRecompute {
        /// The half.
        action: StageAction,
        /// A unit of its stage that recomputes.
        unit: Unit,
    },
    /// The order does not compute every stage's forward of every micro-batch.
    NumForwards {
        /// Forwards of the order.
        num_forwards: usize,
        /// Stages times micro-batches.
        expected: u64,
    },
    /// No rank can go on: this compute waits for a message that is never sent, or never finds a receive buffer.
    Stuck {
        /// The lowest rank that cannot go on.
        rank: PipelineRank,
        /// What it cannot start.
        instruction: Instruction,
        /// The edge of the message.
        edge: Edge,
        /// Ranks that wait for each other, each for the next and the last for the first. Empty where a compute waits for
        /// one that the order does not have.
        cycle: Vec<StuckRank>,
    },
}

impl From<ChainError> for LowerError {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

impl From<OptionsError> for LowerError {
    fn from(error: OptionsError) -> Self {
        Self::Options(error)
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::NumRows { num_rows, num_ranks } => {
                write!(f, "the order has {num_rows} rows for {num_ranks} ranks: it needs one row per rank")
            }
            Self::Misplaced { rank, action } => write!(
                f,
                "{action} stands on rank {}: a rank computes its own stages and the step's micro-batches only",
                rank.0
            ),
            Self::SplitRecompute { action, unit } => write!(
                f,
                "{action} is half a backward of unit {}, which recomputes its activations: between the halves they would \
                 occupy the buffer that the next unit needs; use a schedule with full backwards (`B`), or do not recompute",
                unit.0
            ),
            Self::NumForwards { num_forwards, expected } => write!(
                f,
                "the order has {num_forwards} forwards: every stage runs every micro-batch once, which makes {expected}"
            ),
            Self::Stuck { rank, instruction, edge, cycle } => {
                write!(
                    f,
                    "no rank can go on: rank {} waits at `{instruction}` for {edge}, where a message is never sent or \
                     finds both receive buffers taken; run producers before consumers and consume in the order of sending",
                    rank.0
                )?;
                fmt_cycle(f, cycle)
            }
        }
    }
}

/// A line for each rank of a cycle.
fn fmt_cycle(f: &mut fmt::Formatter<'_>, cycle: &[StuckRank]) -> fmt::Result {
    for (of, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
        let StuckRank { rank, instruction, lack, awaited } = of;
        write!(f, "\n  rank {} waits at `{instruction}` {} `{awaited}`", rank.0, lack.until())?;
        if *awaited == next.instruction {
            write!(f, " on rank {}", next.rank.0)?;
        } else {
            write!(f, ", which rank {} runs after `{}`", next.rank.0, next.instruction)?;
        }
    }
    Ok(())
}

impl core::error::Error for LowerError {}
