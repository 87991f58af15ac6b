//! Why a text is not the CSV of a compute order.

use alloc::string::String;
use core::fmt;

use crate::id::{PipelineRank, Stage};
use crate::order::StageAction;

/// A place in a CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvPlace {
    /// The line, counted from 1: rank `row - 1`.
    pub row: usize,
    /// The cell of the line, counted from 1.
    pub column: usize,
}

impl fmt::Display for CsvPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, column {}", self.row, self.column)
    }
}

/// A broken rule, its place and the cell there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// Where; for what is missing, one past the end of the line that lacks it.
    pub place: CsvPlace,
    /// The cell, cut if it is long; empty at the end of a line.
    pub cell: String,
    /// The rule, with the values that break it.
    pub rule: CsvRule,
}

/// What a CSV can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsvRule {
    /// The text has no line.
    Empty,
    /// A line has no action, so its rank would hold no stage.
    IdleRank(PipelineRank),
    /// The cell is no action: a stage, a letter of `FBIW`, a micro-batch.
    NotAnAction,
    /// The cell is one of PyTorch's actions, but moves data or computes two things at once.
    NotComputeOnly,
    /// A stage or micro-batch is numbered higher than the file has actions, so lower ones are missing.
    NumberTooLarge {
        /// The number.
        number: u64,
        /// Actions of the file.
        num_actions: usize,
    },
    /// A stage stands in the lines of two ranks.
    TwoRanks {
        /// The stage.
        stage: Stage,
        /// The line in which it stands first, counted from 1.
        first_row: usize,
    },
    /// Nothing names this stage, although a higher one is named.
    MissingStage(Stage),
    /// A stage does not run this action of a micro-batch that another stage or action of the file has.
    Missing(StageAction),
    /// An action stands twice.
    Repeated {
        /// Where it stands first.
        first: CsvPlace,
    },
    /// A stage runs a full backward of a micro-batch and half of one.
    BothBackwards {
        /// Where the full one stands.
        full: CsvPlace,
    },
}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if !self.cell.is_empty() {
            write!(f, ", `{}`", self.cell)?;
        }
        write!(f, ": {}", self.rule)
    }
}

impl core::error::Error for CsvError {}

impl fmt::Display for CsvRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty; write a line per rank"),
            Self::IdleRank(rank) => write!(
                f,
                "rank {} computes nothing: every rank holds a stage; drop the line, or give the rank its actions",
                rank.0
            ),
            Self::NotAnAction => f.write_str(
                "not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle",
            ),
            Self::NotComputeOnly => f.write_str(
                "not of the compute-only form: messages, gathers and reductions are added here, and actions are not \
                 fused; dump the schedule before it is lowered",
            ),
            Self::NumberTooLarge { number, num_actions } => write!(
                f,
                "{number} is too large: stages and micro-batches are numbered from 0 without gaps, and the file has \
                 {num_actions} actions; number them so"
            ),
            Self::TwoRanks { stage, first_row } => write!(
                f,
                "stage {} stands in row {first_row} too: a stage lies on one rank; move all its actions to one row",
                stage.0
            ),
            Self::MissingStage(stage) => {
                write!(f, "stage {} is nowhere: stages are numbered from 0 without gaps; add or renumber", stage.0)
            }
            Self::Missing(action) => {
                write!(f, "`{action}` is missing: every stage runs every micro-batch, forward and backward; add it")
            }
            Self::Repeated { first } => write!(f, "it stands at {first} already: an action runs once; drop one"),
            Self::BothBackwards { full } => write!(
                f,
                "a full backward of it stands at {full}: keep `B`, or `I` and `W`, for a stage and micro-batch"
            ),
        }
    }
}
