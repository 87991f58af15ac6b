//! What a simulated step looks like to other programs.

use clap::ValueEnum;
use pipezero_schedule::render::{Gantt, Shown, TimeScale, Track, chrome, svg};
use pipezero_schedule::simulate::{MemoryCurve, MemoryError, memory};

use crate::costs::{Step, memory_costs};
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
