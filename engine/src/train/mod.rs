//! A training run from the first step to the run directory: steps, evaluations, metrics, weights, summary; and back.

mod batches;
mod changed_keys;
mod checkpoints;
mod device_memory;
mod disk_space;
mod error;
mod evaluate;
mod metrics;
mod metrics_file;
mod observer;
mod process_memory;
mod progress;
mod rescue;
mod run_dir;
mod run_dir_error;
mod run_lock;
mod summary;
mod tracer;
mod trained;
mod training;
mod weights_run;

pub use batches::{batch_layout, training_batches};
pub use changed_keys::ChangedKey;
pub use device_memory::DeviceMemory;
pub(crate) use disk_space::DiskNeeds;
pub use disk_space::check_disk_space;
pub use error::TrainingError;
pub use evaluate::evaluate;
pub use metrics::{EvalLine, StepLine};
pub use observer::{Observer, Work};
pub use process_memory::ProcessMemory;
pub use run_dir::{Claim, Place, RunDir};
pub use run_dir_error::RunDirError;
pub use summary::{StepSeconds, Summary};
pub use trained::{Score, TrainedRun, TrainedRunError};
pub use training::{Resumed, Start, Training};
