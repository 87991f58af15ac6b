//! What a simulated step looks like to other programs.

use std::path::Path;

use clap::ValueEnum;
use pipezero_schedule::render::{Gantt, Shown, TimeScale, Track};
use pipezero_schedule::simulate::{MemoryCurve, MemoryError, memory};

use super::{SimulateError, result_file};
use crate::plan::Plan;
use crate::plan::costs::{Step, memory_costs};

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

impl Format {
    /// What a file of it holds.
    fn contents(self) -> &'static str {
        match self {
            Self::Text => "tables",
            Self::Json => "JSON",
            Self::Svg => "a picture",
            Self::Chrome => "a trace",
        }
    }

    /// Refuses a file whose name says that it holds something else: what opens it by its name would find it damaged.
    pub(super) fn check_name(self, out: &Path) -> Result<(), SimulateError> {
        let extension = out.extension().map(|of| of.to_string_lossy().to_lowercase());
        let (expected, repair) = match (extension.as_deref(), self) {
            (Some("svg"), Self::Text | Self::Json | Self::Chrome) => ("a picture", "--format svg"),
            (Some("json"), Self::Text | Self::Svg) => {
                ("JSON", "--format json or, for a trace of a run, --format chrome")
            }
            _ => return Ok(()),
        };
        let (path, found) = (out.to_owned(), self.contents());
        Err(SimulateError::OtherFormat { path, expected, found, repair })
    }
}

/// The step as a trace.
pub(super) fn trace(plan: &Plan, step: &Step) -> String {
    let track =
        Track { name: "predicted", data_rank: None, program: plan.training(), timeline: &step.timeline };
    result_file::chrome(&[track])
}

/// The step as a picture.
pub(super) fn picture(plan: &Plan, step: &Step, title: &str) -> Result<String, MemoryError> {
    Ok(result_file::svg(&Gantt {
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
