//! Why a training run failed.

use super::run_dir::RunDirError;
use crate::measure::trace::TraceError;
use crate::run::data::DataError;
use crate::run::engine::EngineError;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The text of the run file.
    #[error("`data.text`: {0}")]
    Data(#[from] DataError),
    /// The ranks.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A step that was to be traced.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
