//! Why a schedule without a model cannot be simulated.

use std::path::PathBuf;

use pipezero_config::order::OrderFileError;
use pipezero_schedule::generate::SizeError;
use pipezero_schedule::simulate::CostsError;

use super::program_size::{MAX_SHOWN_FORWARDS, SizeLimits, TooMany};

/// Why a schedule without a model cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoneScheduleError {
    /// The generator has no schedule of this size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The step takes too long.
    #[error("{0}; or use a coarser unit of time, with fewer digits behind the point")]
    Costs(#[from] CostsError),
    /// The schedule has another number of stages per rank.
    #[error("`virtual_stages` is {found}: this schedule runs {expected} on each rank; leave it out")]
    VirtualStages {
        /// What was asked for.
        found: u32,
        /// What the schedule has.
        expected: u32,
    },
    /// The schedule runs several stages per rank, and their number is missing.
    #[error("`virtual_stages` is missing: this schedule runs several stages on each rank; add 2 or more")]
    NoVirtualStages,
    /// Groups, and the schedule has none.
    #[error("`group_size` is {0}: only `interleaved` runs micro-batches in groups; leave it out")]
    GroupSize(u32),
    /// A pipeline that would take too long.
    #[error(
        "{num_ranks} ranks of {stages_per_rank} stages make a pipeline of {num_stages}: at most {} are simulated; use fewer \
         ranks or virtual stages", SizeLimits::SIMULATED.num_stages
    )]
    TooManyStages {
        /// Ranks.
        num_ranks: u32,
        /// Stages of each.
        stages_per_rank: u32,
        /// Stages of all.
        num_stages: u128,
    },
    /// A program that would not fit into memory.
    #[error(
        "{micro_batches} micro-batches: the step has {num_instructions} instructions over all ranks, and at most {} are \
         simulated, in two gigabytes of memory; with so many ranks and stages, use {fitting} or fewer",
        SizeLimits::SIMULATED.num_instructions
    )]
    TooLarge {
        /// Micro-batches that were asked for.
        micro_batches: u32,
        /// Instructions that the step would have.
        num_instructions: u128,
        /// Micro-batches that fit.
        fitting: u128,
    },
    /// A step too long to be drawn or explained.
    #[error(
        "the step has {num_forwards} forwards over all stages, and at most {MAX_SHOWN_FORWARDS} are drawn or explained; use \
         fewer micro-batches, since a schedule repeats the same pattern, or ask for figures only"
    )]
    TooLongToShow {
        /// Forwards of all stages.
        num_forwards: u128,
    },
    /// Work that takes no time.
    #[error(
        "the time of {0} is 0: a rank's work takes time; use more than 0 (only a latency may be 0, or one half of a backward \
         that the schedule runs whole)"
    )]
    NoTime(&'static str),
    /// Both halves of a backward take no time.
    #[error(
        "the times of backward input and backward weight are both 0: a backward takes time; make one of them more than 0"
    )]
    NoBackward,
    /// A file that does not hold a schedule that can be simulated.
    #[error("schedule file {}: {rule}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The rule that it breaks.
        rule: OrderRule,
    },
}

/// A rule for an order that is simulated without a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderRule {
    /// It cannot be read.
    #[error(transparent)]
    Unread(OrderFileError),
    /// It has no backward.
    #[error("it has only forwards, and a step has backwards too; add them")]
    NoBackward,
    /// Its ranks have different numbers of stages.
    #[error(
        "rank 0 has {first} stages and rank {rank} has {found}, but times are those of a whole rank, the same for all ranks: \
         place as many stages on each rank, or name a run file of timed layers, where each stage has its own times"
    )]
    Uneven {
        /// Stages of rank 0.
        first: usize,
        /// The first rank with another number.
        rank: usize,
        /// Its stages.
        found: usize,
    },
    /// It is too large.
    #[error(transparent)]
    TooLarge(#[from] TooMany),
}

impl LoneScheduleError {
    /// Whether the schedule is valid, and only too large to be simulated or shown.
    pub fn is_too_large(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::TooManyStages { .. }
            | Self::TooLongToShow { .. }
            | Self::Size(SizeError::TooLarge { .. }) => true,
            Self::File { rule, .. } => matches!(rule, OrderRule::TooLarge(_)),
            _ => false,
        }
    }
}
