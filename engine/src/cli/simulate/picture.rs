//! What a simulated step looks like to other programs, and where it is written.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pipezero_schedule::render::{Gantt, Shown, TimeScale, Track, chrome, svg};
use pipezero_schedule::simulate::{MemoryCurve, MemoryError, memory};

use crate::cli::failure::Failure;
use crate::cli::output::{note, print};
use crate::costs::{Step, memory_costs};
use crate::partial_file::{Existing, PartialFile};
use crate::plan::Plan;

/// How a step is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables.
    #[default]
    Text,
    /// All figures, for programs.
    Json,
    /// A picture of who does what when, with the memory in use.
    Svg,
    /// A trace for ui.perfetto.dev or chrome://tracing.
    Chrome,
}

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {reason}; name a new file in a folder that can be written to, with --out", path.display())]
pub(in crate::cli) struct NotWritten {
    path: PathBuf,
    reason: String,
}

/// The step as a trace.
pub(super) fn trace(plan: &Plan, step: &Step) -> String {
    let track =
        Track { name: "predicted", data_rank: None, program: plan.training(), timeline: &step.timeline };
    chrome(&[track])
}

/// The step as a picture.
pub(super) fn picture(plan: &Plan, step: &Step, title: &str) -> Result<String, MemoryError> {
    Ok(svg(&Gantt {
        title,
        program: plan.training(),
        timeline: &step.timeline,
        memory: &curves(plan, step)?,
        scale: TimeScale::nanoseconds(step.makespan_ns),
        shown: Shown::WholeStep,
    }))
}

/// What each pipeline rank holds over the step.
pub(super) fn curves(plan: &Plan, step: &Step) -> Result<Vec<MemoryCurve>, MemoryError> {
    memory(plan.training(), &step.timeline, &memory_costs(plan))
}

/// Writes to a new file, or to stdout where none is named.
pub(super) fn deliver(text: &str, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out else { return Ok(print(text)?) };
    let written = PartialFile::create(path, Existing::Kept).and_then(|file| file.finish_with(text));
    written.map_err(|error| NotWritten { path: path.to_owned(), reason: error.to_string() })?;
    note(format_args!("wrote {}", path.display()));
    Ok(())
}
