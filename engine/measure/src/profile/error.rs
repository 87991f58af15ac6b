//! Why a run has no costs.

use pipezero_run::engine::EngineError;

use crate::recording::Fault;

/// Why a run could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Nothing was to be recorded.
    #[error("0 steps to record: costs are means over recorded steps; record at least 1")]
    NoSteps,
    /// No step of the program can have happened as the ranks recorded it.
    #[error("step {step} was recorded wrongly: {source}")]
    Recorded {
        /// The step.
        step: u64,
        /// What is wrong with it.
        source: Fault,
    },
    /// The ranks.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Step after step left the weights as they were.
    #[error(
        "{num_skipped} steps were left out, and {num_done} were not: a step that is left out has no optimizer to measure; lower \
         `fp16.initial_scale_power`, or use bf16"
    )]
    Skipped {
        /// Steps that were left out.
        num_skipped: u64,
        /// Steps that were not.
        num_done: u64,
    },
}
