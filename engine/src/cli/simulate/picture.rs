//! What a simulated step looks like to other programs, and where it is written.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pipezero_schedule::render::{Track, chrome};

use crate::cli::failure::Failure;
use crate::cli::output::{note, print};
use crate::costs::Step;
use crate::plan::Plan;

/// How a step is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables.
    #[default]
    Text,
    /// All figures, for programs.
    Json,
    /// A trace for ui.perfetto.dev or chrome://tracing.
    Chrome,
}

/// A file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {reason}; name a file that is not there yet with --out", path.display())]
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

/// Writes to a new file, or to stdout where none is named.
pub(super) fn deliver(text: &str, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out else { return Ok(print(text)?) };
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| NotWritten { path: path.to_owned(), reason: error.to_string() })?;
    note(format_args!("wrote {}", path.display()));
    Ok(())
}
