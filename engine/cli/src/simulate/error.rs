//! Arguments of `simulate` that do not go together.

use std::path::PathBuf;

use pipezero_plan::what_if::LoneScheduleError;

use crate::exit_status::InputMistake;

/// Arguments that do not go together, or do not name a schedule that can be simulated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimulateError {
    /// Neither a run file nor a schedule.
    #[error(
        "nothing to simulate: name a run file, or a schedule with --schedule, --forward, --backward-input and \
         --backward-weight and, unless it is a file, --ranks and --micro-batches"
    )]
    Nothing,
    /// A run file and something that the file itself contains.
    #[error(
        "{flag} belongs to a schedule without a model, but RUN.json is a whole run: leave one of them out (change a key with \
         --set)"
    )]
    BothForms {
        /// The argument.
        flag: &'static str,
    },
    /// A schedule and something that only a run has.
    #[error("{flag} belongs to a run, but --schedule is simulated without one: name a run file instead")]
    OnlyOfRun {
        /// The argument.
        flag: &'static str,
    },
    /// A schedule file and a size, which the file determines.
    #[error("{flag} is determined by the schedule file: leave it out, or name a generated schedule")]
    SizeOfFile {
        /// The argument.
        flag: &'static str,
    },
    /// A trace needs a clock.
    #[error(
        "--format chrome needs a run: a trace is in nanoseconds, and the times of a schedule have no unit; use --format svg, \
         or name a run file of timed layers"
    )]
    NoUnit,
    /// A schedule needs all its sizes and times.
    #[error(
        "{flag} is missing: a schedule needs {}; add it, or name a run file",
        if *is_file { "times, which its file does not have" } else { "ranks, micro-batches and times" }
    )]
    Missing {
        /// The argument.
        flag: &'static str,
        /// Whether a file has the sizes.
        is_file: bool,
    },
    /// An explanation in a picture or trace.
    #[error("--explain is printed as text or JSON: leave it out, or use --format text or json")]
    Unexplained,
    /// Two speeds of one rank.
    #[error("--speed is given twice for rank {rank}: a rank has one speed; leave one of them out")]
    SpeedTwice {
        /// The world rank.
        rank: u32,
    },
    /// Both directions share a port, but no messages share ports.
    #[error("--half-duplex needs ports that messages share: add --sharing rank-port or node-port")]
    HalfDuplex,
    /// Nodes of another size, where the run says how large they are.
    #[error("--ranks-per-node is for a device's nodes, but the run has its own: use --set {key}={ranks}")]
    NodeOfRun {
        /// What the run says it by.
        key: &'static str,
        /// What was asked for.
        ranks: u32,
    },
    /// Nodes of another size, where times were measured.
    #[error(
        "--ranks-per-node is for calculated times, but --costs were measured on nodes as they are: leave one of them out"
    )]
    NodeOfCosts,
    /// A schedule that cannot be simulated.
    #[error(transparent)]
    Schedule(#[from] LoneScheduleError),
    /// A file whose name belongs to another format.
    #[error(
        "--out {}: a file of this name holds {expected}, but {found} would be in it; use {repair}, or name another file",
        path.display()
    )]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// What its name says.
        expected: &'static str,
        /// What was asked for.
        found: &'static str,
        /// The format that belongs into it.
        repair: &'static str,
    },
}

impl InputMistake for SimulateError {
    fn is_input_mistake(&self) -> bool {
        !matches!(self, Self::Schedule(error) if error.is_too_large())
    }
}

#[cfg(test)]
mod tests {
    use pipezero_schedule::generate::SizeError;

    use super::*;

    #[test]
    fn valid_schedules_that_are_too_large_are_not_mistakes() {
        for (error, expected) in [
            (LoneScheduleError::TooLarge { micro_batches: 9, num_instructions: 1 << 40, fitting: 8 }, false),
            (
                LoneScheduleError::TooManyStages { num_ranks: 9000, stages_per_rank: 1, num_stages: 9000 },
                false,
            ),
            (LoneScheduleError::TooLongToShow { num_forwards: 1 << 20 }, false),
            (SizeError::TooLarge { num_stages: 1 << 20, num_micro_batches: 1 << 20 }.into(), false),
            (SizeError::NoRank.into(), true),
        ] {
            let text = error.to_string();
            assert_eq!(SimulateError::from(error).is_input_mistake(), expected, "{text}");
        }
        assert!(SimulateError::Nothing.is_input_mistake());
    }
}
