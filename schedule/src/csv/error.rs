//! Why a text is not the CSV of a compute order.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::id::{PipelineRank, Stage};
use crate::lower::Lack;
use crate::order::StageAction;

/// The place of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvPlace {
    /// The row, counted from 1: that of rank `row - 1`.
    pub row: usize,
    /// The cell of the row, counted from 1, idle ones too.
    pub column: usize,
}

impl fmt::Display for CsvPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, column {}", self.row, self.column)
    }
}

/// What an error is about: a cell where one is wrong, and no cell where one is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CsvSite {
    /// A cell.
    Cell {
        /// Where it stands.
        place: CsvPlace,
        /// What stands there, cut if it is long.
        text: String,
    },
    /// A whole row, counted from 1.
    Row(usize),
    /// The end of a row, counted from 1, which lacks something.
    RowEnd(usize),
    /// The whole file.
    File,
}

impl fmt::Display for CsvSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Any file can be named by mistake, also one that holds passwords: only what begins as an action is shown.
            Self::Cell { place, text }
                if !text.starts_with(|first: char| first.is_ascii_digit() || first == '(') =>
            {
                write!(f, "{place}")
            }
            Self::Cell { place, text } => write!(f, "{place}, `{text}`"),
            Self::Row(row) => write!(f, "row {row}"),
            Self::RowEnd(row) => write!(f, "end of row {row}"),
            Self::File => f.write_str("the file"),
        }
    }
}

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvError {
    /// What the error is about.
    pub site: CsvSite,
    /// The rule, with the values that break it.
    pub rule: CsvRule,
}

impl CsvError {
    /// An error about an action that stands at `place`.
    pub(super) fn at(place: CsvPlace, action: StageAction, rule: CsvRule) -> Self {
        Self { site: CsvSite::Cell { place, text: action.to_string() }, rule }
    }
}

/// An action of a cycle of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvWait {
    /// The action that cannot start, and where it stands.
    pub action: (StageAction, CsvPlace),
    /// What it lacks.
    pub lack: Lack,
    /// The action that it waits for, and where that stands: the next of the cycle, or behind it in its row.
    pub awaited: (StageAction, CsvPlace),
}

/// What a CSV can break.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsvRule {
    /// The text has no row.
    Empty,
    /// A row has no action, so its rank would hold no stage.
    IdleRank(PipelineRank),
    /// The cell is not an action, which is a stage, a letter of `FBIW`, a micro-batch.
    NotAnAction,
    /// The cell is one of PyTorch's actions, but moves data or computes two things at once.
    NotComputeOnly,
    /// A stage or micro-batch is numbered higher than the file has actions, so lower ones are missing.
    NumberTooLarge {
        /// The number, or the largest that can be held if it is larger.
        number: u64,
        /// Actions of the file.
        num_actions: usize,
    },
    /// A stage stands in the rows of two ranks.
    TwoRanks {
        /// The stage.
        stage: Stage,
        /// The row in which it stands first, counted from 1.
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
    /// An action stands before another one of its row that it needs.
    RunsBefore {
        /// What it needs.
        needed: StageAction,
        /// Where that stands.
        place: CsvPlace,
    },
    /// No rank can go on: each of these actions waits for the next, and the last for the first.
    Stuck(Vec<CsvWait>),
}

impl fmt::Display for CsvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.site, self.rule)
    }
}

impl core::error::Error for CsvError {}

impl fmt::Display for CsvRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty; write a row per rank"),
            Self::IdleRank(rank) => write!(
                f,
                "rank {} computes nothing: every rank holds a stage; drop the row, or give the rank its actions",
                rank.0
            ),
            Self::NotAnAction => f.write_str(
                "not an action: a stage, one of `F`, `B`, `I`, `W`, and a micro-batch, as in `0F0`; nothing for idle",
            ),
            Self::NotComputeOnly => f.write_str(
                "not of the compute-only form: messages, gathers and reductions are added here, and actions are not \
                 fused; dump the schedule before it is lowered",
            ),
            Self::NumberTooLarge { number, num_actions } => {
                match *number {
                    // It has too many digits to be read.
                    u64::MAX => f.write_str("a number of 20 digits or more")?,
                    number => write!(f, "{number}")?,
                }
                write!(
                    f,
                    " is too large: stages and micro-batches are numbered from 0 without gaps, and the file has \
                     {num_actions} actions; number them so"
                )
            }
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
            Self::RunsBefore { needed, place } => {
                write!(f, "it needs `{needed}`, which comes later, at {place}; move it behind")
            }
            Self::Stuck(cycle) => {
                f.write_str(
                    "no rank can go on: these actions wait for each other; run first what others wait for, and use messages in order:",
                )?;
                fmt_cycle(f, cycle)
            }
        }
    }
}

/// A line for each action of a cycle.
fn fmt_cycle(f: &mut fmt::Formatter<'_>, cycle: &[CsvWait]) -> fmt::Result {
    for (of, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
        let CsvWait { action: (action, place), lack, awaited: (awaited, awaited_place) } = of;
        write!(f, "\n  `{action}` ({place}) waits {} `{awaited}` ({awaited_place})", lack.until())?;
        let (blocks, blocks_place) = next.action;
        if *awaited != blocks {
            write!(f, ", which comes after `{blocks}` ({blocks_place})")?;
        }
    }
    Ok(())
}
