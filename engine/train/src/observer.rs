//! What a run says of itself while it goes on.

use pipezero_run::checkpoint::CheckpointError;
use pipezero_run::engine::EngineError;

use super::metrics::{EvalLine, StepLine};

/// Receives every line of the metrics while the run goes on.
pub trait Observer {
    /// The run does something else than a step for a while.
    fn begins(&mut self, _work: Work) {}
    /// A step has ended.
    fn step(&mut self, line: &StepLine);
    /// An evaluation has ended.
    fn evaluation(&mut self, line: &EvalLine);
    /// A checkpoint could not be written, and the run goes on.
    fn checkpoint_failed(&mut self, _step: u64, _error: &EngineError) {}
    /// A checkpoint is complete, and an earlier one could not be removed.
    fn old_checkpoint_stays(&mut self, _error: &CheckpointError) {}
    /// Something happened to the run directory, and the run goes on.
    fn warning(&mut self, warning: &str) {
        tracing::warn!("{warning}");
    }
}

/// What a run does between steps and after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The weights are written.
    Saving,
    /// A checkpoint is written.
    Checkpoint,
    /// The loss of a batch of the validation text is computed.
    Evaluation {
        /// Its index, from 1.
        batch: u64,
        /// Batches of the evaluation.
        num_batches: u64,
    },
}
