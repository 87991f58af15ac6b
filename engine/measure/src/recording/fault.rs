//! What can be wrong with a recorded step: its times are of another program, or no rank can have run like that.

use super::place::Place;

/// The longest step: a day. A longer one was not measured.
pub(super) const STEP_NS_MAX: u64 = 24 * 60 * 60 * 1_000_000_000;

/// Why no step of the program can have these times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The engine was not asked to record.
    #[error("step {step} was not recorded: run it by `Engine::train_batch_recorded`")]
    NotRecorded {
        /// The step.
        step: u64,
    },
    /// It is known only of the ranks of one process.
    #[error("step {step} is known of {found} of {expected} ranks: only the process of rank 0 knows all")]
    Partial {
        /// The step.
        step: u64,
        /// Ranks that are known.
        found: usize,
        /// Ranks of the grid.
        expected: usize,
    },
    /// It has another number of ranks.
    #[error("it has {found} ranks, the run has {expected}")]
    NumRanks {
        /// Ranks with times.
        found: usize,
        /// Ranks of the grid.
        expected: usize,
    },
    /// A rank has times for another number of instructions.
    #[error("rank {rank} has {found} times `{event}`, and {expected} instructions")]
    NumInstructions {
        /// The world rank.
        rank: usize,
        /// Which of an instruction's times.
        event: &'static str,
        /// How many there are.
        found: usize,
        /// Instructions of its row.
        expected: usize,
    },
    /// An instruction lacks a time.
    #[error("{place} lacks the time `{event}`, which every such instruction has")]
    Missing {
        /// The instruction.
        place: Place,
        /// Which of its times.
        event: &'static str,
    },
    /// An instruction has a time that such an instruction never has.
    #[error("{place} has a time `{event}`, which no such instruction has")]
    Unexpected {
        /// The instruction.
        place: Place,
        /// Which of its times.
        event: &'static str,
    },
    /// An instruction was recorded twice.
    #[error("{place} has two times `{event}`, and every instruction runs once")]
    Twice {
        /// The instruction.
        place: Place,
        /// Which of its times.
        event: &'static str,
    },
    /// A later time comes first.
    #[error(
        "{place} was `{}` at {} ns, before it was `{}` at {} ns", events[1], at_ns[1], events[0], at_ns[0]
    )]
    Backwards {
        /// The instruction.
        place: Place,
        /// The two events as they should follow each other.
        events: [&'static str; 2],
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
    /// Messages of a lane were completed out of order.
    #[error("{later} was completed before {earlier}, and a lane keeps its order")]
    LaneOrder {
        /// What was issued first.
        earlier: Place,
        /// What was completed first.
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
    /// Something that several ranks do together was done before one of them had started it.
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
    /// It lasts longer than any step.
    #[error("it lasts {found_ns} ns, and no step is longer than a day, {STEP_NS_MAX} ns")]
    Long {
        /// How long it lasts.
        found_ns: u64,
    },
    /// No clock was read.
    #[error("none of its computes takes any time, and computing takes some")]
    NoTime,
}
