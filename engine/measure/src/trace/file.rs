//! A recorded step on disk: one JSON file, versioned and read strictly.
//!
//! ```json
//! {
//!   "format": "pipezero-trace", "version": 1,
//!   "step": 2, "step_ns": 81234567,
//!   "program": "0123456789abcdef", "data_degree": 2,
//!   "ranks": [{ "started": [0, 210], "issued": [180, null], "awaited": [..], "arrived": [..], "ended": [..] }, ..]
//! }
//! ```
//!
//! * `program`: the name of the program that ran, a hash of its text; `data_degree`: data ranks of each of its ranks.
//! * `ranks`, by world rank: when each kind of event happened to each instruction of the rank's row, in nanoseconds since
//!   the first of all ranks came to its first instruction; null where it never does. [`pipezero_run::executor::EventKind`] says what the
//!   events are, and `pipezero show --format program` prints the rows.
//!
//! Columns rather than an object for each instruction: a tenth of the size, and what tools that plot read anyway.

use pipezero_files::json::{JsonError, Source};
use pipezero_plan::Plan;
use pipezero_run::executor::EventKind;
use serde::{Deserialize, Serialize};

use super::fingerprint::fingerprint;
use crate::recording::{EventTimes, Fault, Place, Recording, Times};

/// Bytes of a file for each instruction of each rank, at most: five times of fourteen digits in a step of a day, with
/// a line and an indentation each; and some for the rest.
const INSTRUCTION_BYTES_MAX: u64 = 256;

const FORMAT: &str = "pipezero-trace";

/// The version that is written and read.
const VERSION: u32 = 1;

/// What is wrong with the text of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// It is not JSON of this form.
    #[error("it is damaged or no trace: line {line}, column {column}: {message}; trace the run again")]
    Json {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// Key, value and rule.
        message: String,
    },
    /// It is something else.
    #[error("its format is `{found}`, not `{FORMAT}`; trace the run again")]
    Format {
        /// What it says that it is.
        found: String,
    },
    /// It is of a version that is not read here.
    #[error("its version is {found}, and {VERSION} is what is read here; trace the run again")]
    Version {
        /// The version.
        found: u32,
    },
    /// It is of another program.
    #[error(
        "it is of program {found}, the run's is {expected}: the run file was changed since, or means something else on this \
         host; trace the run again"
    )]
    OtherProgram {
        /// The program of the trace.
        found: String,
        /// The program of the run.
        expected: String,
    },
    /// It is of another grid.
    #[error("it is of {found} data ranks, the run has {expected}; trace the run again")]
    OtherGrid {
        /// Data ranks of the trace.
        found: usize,
        /// Data ranks of the run.
        expected: usize,
    },
    /// No step of the program can have its times.
    #[error("it is damaged: {0}; trace the run again")]
    Fault(#[from] Fault),
}

impl From<JsonError> for ParseError {
    fn from(error: JsonError) -> Self {
        let (line, column) = error.span.line_column();
        Self::Json { line, column, message: error.to_string() }
    }
}

/// The two fields that decide how the others are read.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceFile {
    format: String,
    version: u32,
    step: u64,
    step_ns: u64,
    program: String,
    data_degree: usize,
    ranks: Vec<Columns>,
}

/// `[index]` in each column: when that happened to the instruction; nothing where it never does.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Columns {
    started: Vec<Option<u64>>,
    issued: Vec<Option<u64>>,
    awaited: Vec<Option<u64>>,
    arrived: Vec<Option<u64>>,
    ended: Vec<Option<u64>>,
}

impl Columns {
    fn of_rank(recording: &Recording<'_>, rank: usize) -> Self {
        let events = recording.places_of(rank).map(|of| recording.times(of).event_times(recording.shape(of)));
        let events: Vec<EventTimes> = events.collect();
        let [started, issued, awaited, arrived, ended] =
            EventKind::ALL.map(|kind| events.iter().map(|of| of[kind as usize]).collect());
        Self { started, issued, awaited, arrived, ended }
    }

    /// The times of the instructions of a world rank.
    fn times(&self, recording: &Recording<'_>, rank: usize) -> Result<Vec<Times>, Fault> {
        let columns = [&self.started, &self.issued, &self.awaited, &self.arrived, &self.ended];
        for (column, kind) in columns.iter().zip(EventKind::ALL) {
            let (found, expected) = (column.len(), recording.row(rank).len());
            if found != expected {
                return Err(Fault::NumInstructions { rank, event: kind.name(), found, expected });
            }
        }
        let times = |of: Place| {
            Times::of_event_times(of, recording.shape(of), &columns.map(|column| column[of.index]))
        };
        recording.places_of(rank).map(times).collect()
    }
}

impl<'a> Recording<'a> {
    /// The text of a file.
    pub fn to_json(&self) -> String {
        let file = TraceFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            step: self.step(),
            step_ns: self.step_ns(),
            program: fingerprint(self.program().program()),
            data_degree: self.grid().data_degree,
            ranks: self.ranks().map(|rank| Columns::of_rank(self, rank)).collect(),
        };
        let mut text = serde_json::to_string(&file).expect("a trace has string keys and finite depth");
        text.push('\n');
        text
    }

    /// Bytes of a file of the plan at most.
    pub(super) fn max_bytes(plan: &Plan) -> u64 {
        let num_instructions = plan.num_instructions_of_world() as u64;
        num_instructions.saturating_mul(INSTRUCTION_BYTES_MAX).saturating_add(1 << 20)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`ParseError`] unless it is of a step that the plan's program can have gone through.
    pub fn from_json(plan: &'a Plan, text: &str) -> Result<Self, ParseError> {
        let source = Source::file("trace", text);
        let Head { format, version } = source.read()?;
        if format != FORMAT {
            return Err(ParseError::Format { found: format });
        }
        if version != VERSION {
            return Err(ParseError::Version { found: version });
        }
        let file: TraceFile = source.read()?;
        let (found, expected) = (file.program, fingerprint(plan.training().program()));
        if found != expected {
            return Err(ParseError::OtherProgram { found, expected });
        }
        let (found, expected) = (file.data_degree, plan.grid().data_degree);
        if found != expected {
            return Err(ParseError::OtherGrid { found, expected });
        }
        let (found, expected) = (file.ranks.len(), plan.grid().world_size());
        if found != expected {
            return Err(Fault::NumRanks { found, expected }.into());
        }
        let step = (file.step, file.step_ns);
        Ok(Self::of_rows(plan, step, |recording, rank| file.ranks[rank].times(recording, rank))?)
    }
}
