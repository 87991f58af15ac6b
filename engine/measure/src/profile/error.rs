//! Why a run has no costs.

use pipezero_models::ModelError;
use pipezero_run::engine::EngineError;

use crate::recording::Fault;

/// Why a run could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Nothing was to be recorded.
    #[error("0 steps to record: costs are means over recorded steps; record at least 1")]
    NoSteps,
    /// The kernels of a run on the CPU were to be timed.
    #[error(
        "kernels are timed on GPUs, and this run computes on the CPU: set `device` to \"cuda\", or leave --kernels out"
    )]
    KernelsOfCpu,
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
    /// A device, when it was asked for the times of its kernels.
    #[error(transparent)]
    Device(#[from] ModelError),
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
