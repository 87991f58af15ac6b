//! The run whose weights `eval` and `generate` use.

use std::path::Path;

use crate::train::{TrainedRun, TrainedRunError};

/// Opens a run directory for the weights of its end, or for those of the checkpoint after a step.
pub(super) fn opened(directory: &Path, step: Option<u64>) -> Result<TrainedRun, TrainedRunError> {
    match step {
        Some(step) => TrainedRun::open_at(directory, step),
        None => TrainedRun::open(directory),
    }
}
