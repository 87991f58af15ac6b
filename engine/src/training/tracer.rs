//! Writes the traced steps of a run, each as soon as it has ended, so that no more than one is held at a time.

use super::run_dir::RunDir;
use crate::engine::StepReport;
use crate::plan::Plan;
use crate::trace::{Recorded, TraceError, TraceFolder, TracedSteps};

/// Of a run whose steps are traced.
#[derive(Debug)]
pub(super) struct Tracer {
    steps: TracedSteps,
    folder: TraceFolder,
}

impl Tracer {
    pub(super) fn new(steps: TracedSteps, directory: &RunDir) -> Self {
        Self { steps, folder: TraceFolder::of_run(directory.path()) }
    }

    /// Whether a step is to be recorded.
    pub(super) fn wants(&self, step: u64) -> bool {
        self.steps.contains(step)
    }

    /// Writes a step that was recorded.
    pub(super) fn add(&self, plan: &Plan, report: &StepReport) -> Result<(), TraceError> {
        let recorded = Recorded::new(plan, report)
            .map_err(|source| TraceError::Recorded { step: report.step, source })?;
        self.folder.write(plan, &recorded)
    }
}
