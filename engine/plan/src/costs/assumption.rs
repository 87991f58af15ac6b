//! What a prediction assumes where nothing was measured: each such assumption is reported.

use std::fmt;

use super::message_kind::MessageKind;
use super::unit_key::in_words;

/// Something that a costs file does not hold, and what stands for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assumption {
    /// Units without an entry of their own are the sum of several.
    Composed {
        /// Layers of such a unit by kind.
        layers: Vec<String>,
        /// Entries that it is composed of.
        num_entries: usize,
    },
    /// The measured run did not split backwards: each half is taken for half of the backward.
    Halves,
    /// A message was measured between another number of ranks, or only one that is like it.
    Message {
        /// The kind that the run sends.
        kind: MessageKind,
        /// Ranks that take part in it.
        ranks: u64,
        /// The kind that was measured.
        measured: MessageKind,
        /// Ranks that took part.
        measured_ranks: u64,
    },
    /// Messages are smaller or larger than all that were measured.
    Size {
        /// The kind that was measured.
        kind: MessageKind,
        /// Ranks that took part.
        ranks: u64,
        /// The fewest bytes and the most that the run sends, of those outside.
        run_bytes: [u64; 2],
        /// The fewest bytes and the most that were measured.
        measured_bytes: [u64; 2],
    },
    /// The run is so large that of the recorded steps only some are played for what ranks wait for slow ones.
    Played {
        /// Recorded steps that are played, evenly chosen.
        num_played: usize,
        /// Recorded steps.
        num_recorded: usize,
    },
    /// Another number of ranks was at work on the machine.
    Ranks {
        /// When it was measured.
        measured: u64,
        /// In this run.
        run: u64,
        /// Cores of the machine.
        cores: u64,
    },
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Composed { layers, num_entries } => {
                write!(
                    f,
                    "the unit of {} was not measured: it is the sum of {num_entries} units",
                    in_words(layers)
                )
            }
            Self::Halves => f.write_str(
                "input and weight gradients were not measured apart: each is taken for half of a backward",
            ),
            Self::Message { kind, ranks, measured, measured_ranks } => write!(
                f,
                "`{kind}` between {} was not measured: `{measured}` between {} stands for it",
                ranks_of(*ranks),
                ranks_of(*measured_ranks)
            ),
            Self::Size { kind, ranks, run_bytes, measured_bytes } => write!(
                f,
                "`{kind}` between {} was measured with {} bytes, and the run has {}: times are extrapolated linearly",
                ranks_of(*ranks),
                range(*measured_bytes),
                range(*run_bytes)
            ),
            Self::Played { num_played, num_recorded } => write!(
                f,
                "the time that ranks wait for slow ranks is worked out from {num_played} of {num_recorded} recorded steps, \
                 evenly chosen: the run is too large to play them all"
            ),
            Self::Ranks { measured, run, cores } => write!(
                f,
                "measured with {measured} ranks at work on {cores} cores, and the run has {run}: with more ranks than cores \
                 each has only a share of a core, so computes take longer or shorter than measured"
            ),
        }
    }
}

/// `least to most`, or the one number that both are.
fn range([least, most]: [u64; 2]) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

fn ranks_of(num_ranks: u64) -> String {
    if num_ranks == 1 { "1 rank".to_owned() } else { format!("{num_ranks} ranks") }
}
