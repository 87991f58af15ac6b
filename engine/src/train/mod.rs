//! A training run from the first step to the run directory: steps, evaluations, metrics, weights, summary.

mod baseline;
mod metrics;
mod run;
mod run_dir;
mod summary;
mod tracer;

pub use baseline::Baselines;
pub use metrics::{EvalLine, StepLine};
pub use run::{Observer, Training, TrainingError, batch_layout, evaluate, training_batches};
pub use run_dir::{Place, RunDir, RunDirError};
pub use summary::{StepSeconds, Summary};
