//! Writes the traced steps of a run, each as soon as it has ended, so that only one is held at a time; and at the end one of
//! them for a viewer.

use pipezero_measure::recording::Recording;
use pipezero_measure::trace::{TraceError, TraceFolder, picture};
use pipezero_plan::Plan;
use pipezero_run::engine::StepReport;

use super::error::TrainingError;
use super::run_dir::RunDir;

/// The traced steps of a run.
#[derive(Debug)]
pub(super) struct Tracer {
    folder: TraceFolder,
    /// The length and the number of each step that was written.
    written: Vec<(u64, u64)>,
}

impl Tracer {
    pub(super) fn new(directory: &RunDir) -> Self {
        Self { folder: TraceFolder::of_run(directory.path()), written: Vec::new() }
    }

    /// Writes a step that was recorded.
    pub(super) fn add(&mut self, plan: &Plan, report: &StepReport) -> Result<(), TraceError> {
        let recording = Recording::new(plan, report)
            .map_err(|source| TraceError::Recorded { step: report.step, source })?;
        self.folder.write(&recording)?;
        self.written.push(recording.length());
        Ok(())
    }

    /// Writes the step of median length for viewers of traces, unless the run ended before any was traced.
    pub(super) fn finish(&mut self, plan: &Plan, directory: &RunDir) -> Result<(), TrainingError> {
        self.written.sort_unstable();
        let Some(&(_, step)) = self.written.get(self.written.len() / 2) else { return Ok(()) };
        let recording = self.folder.read(plan, step)?;
        directory.write(RunDir::TRACE, &picture(&recording, None))?;
        Ok(())
    }
}
