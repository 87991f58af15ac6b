//! What can be wrong with moments: they are none of this program, or none that a rank can have gone through.

use std::fmt;

use pipezero_schedule::Instruction;

/// The longest step: a day. Whatever is longer was not measured.
pub(super) const STEP_NS_MAX: u64 = 24 * 60 * 60 * 1_000_000_000;

/// An instruction on a world rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The world rank.
    pub rank: usize,
    /// The position in its row.
    pub index: usize,
    /// What stands there.
    pub instruction: Instruction,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, index, instruction } = self;
        write!(f, "rank {rank}, instruction {index} (`{instruction}`)")
    }
}

/// Why moments are not those of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The engine was not asked to record.
    #[error("step {step} was not recorded: start the engine with `Engine::recording`")]
    NotRecorded {
        /// The step.
        step: u64,
    },
    /// It is of another number of ranks.
    #[error("it has {found} ranks, the run has {expected}")]
    NumRanks {
        /// Ranks with moments.
        found: usize,
        /// Ranks of the grid.
        expected: usize,
    },
    /// A rank has moments for another number of instructions.
    #[error("rank {rank} has {found} times `{moment}`, and {expected} instructions")]
    NumInstructions {
        /// The world rank.
        rank: usize,
        /// Which moments.
        moment: &'static str,
        /// How many there are.
        found: usize,
        /// Instructions of its row.
        expected: usize,
    },
    /// An instruction lacks a moment.
    #[error("{place} has no time `{moment}`, and every such instruction has one")]
    Missing {
        /// The instruction.
        place: Place,
        /// The moment.
        moment: &'static str,
    },
    /// An instruction has a moment that such an instruction never has.
    #[error("{place} has a time `{moment}`, and no such instruction has one")]
    Unexpected {
        /// The instruction.
        place: Place,
        /// The moment.
        moment: &'static str,
    },
    /// An instruction went through a moment twice.
    #[error("{place} has two times `{moment}`, and every instruction runs once")]
    Twice {
        /// The instruction.
        place: Place,
        /// The moment.
        moment: &'static str,
    },
    /// A later moment comes first.
    #[error(
        "{place} was `{}` at {} ns, before it was `{}` at {} ns", moments[1], at_ns[1], moments[0], at_ns[0]
    )]
    Backwards {
        /// The instruction.
        place: Place,
        /// The two moments as they should follow each other.
        moments: [&'static str; 2],
        /// When they were.
        at_ns: [u64; 2],
    },
    /// A rank did two things at once, or one before its turn.
    #[error("{later} began at {at_ns} ns, before the rank was done with {earlier}")]
    Overlap {
        /// What should have been done first.
        earlier: Place,
        /// What began too early.
        later: Place,
        /// When it began.
        at_ns: u64,
    },
    /// Messages of a lane were taken in out of order.
    #[error("{later} was taken in before {earlier}, and a lane keeps its order")]
    LaneOrder {
        /// What was issued first.
        earlier: Place,
        /// What was taken in first.
        later: Place,
    },
    /// Something started before what it waits for had ended.
    #[error("{place} started at {at_ns} ns, before {waits_for} had ended, which it waits for")]
    Dependency {
        /// What started too early.
        place: Place,
        /// What it waits for.
        waits_for: Place,
        /// When it started.
        at_ns: u64,
    },
    /// Something that several ranks do together was done before one of them had come.
    #[error("{place} was done at {at_ns} ns, before {member} had started, which it needs")]
    Early {
        /// What was done too early.
        place: Place,
        /// The other rank's part.
        member: Place,
        /// When it was done.
        at_ns: u64,
    },
    /// Times are not counted from the first start.
    #[error(
        "its first instruction starts at {first_ns} ns, and times are counted from that start, which is 0"
    )]
    Origin {
        /// The earliest start.
        first_ns: u64,
    },
    /// The step is shorter than a rank's part of it.
    #[error(
        "its `step_ns` is {step_ns}, and rank {rank} took {rank_ns} ns from its first instruction to its last"
    )]
    Short {
        /// How long the step took.
        step_ns: u64,
        /// A world rank.
        rank: usize,
        /// How long its row took.
        rank_ns: u64,
    },
    /// It lasts longer than anybody would have waited.
    #[error("it lasts {found_ns} ns, and no step is longer than a day, {STEP_NS_MAX} ns")]
    Long {
        /// How long it lasts.
        found_ns: u64,
    },
    /// No clock was read.
    #[error("none of its computes takes any time, and computing takes some")]
    NoTime,
}
