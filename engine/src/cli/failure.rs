//! The one place that prints errors.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use miette::GraphicalReportHandler;

use super::profile::OutError;
use super::simulate::{NotWritten, SimulateError};
use crate::config::ConfigErrors;
use crate::costs::{CostsFileError, PredictError};
use crate::data::DataError;
use crate::engine::EngineError;
use crate::plan::PlanError;
use crate::profile::ProfileError;
use crate::trace::{TraceError, TracedStepsError};
use crate::training::{RunDirError, TrainingError};

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The run file or its overrides; exit status 2, as for wrong arguments.
    Config(ConfigErrors),
    /// Arguments that do not go together; exit status 2.
    Arguments(Box<dyn std::error::Error>),
    /// The reader of stdout has seen enough and closed it: no failure at all.
    NobodyReads,
    /// Everything else; exit status 1.
    Other(Box<dyn std::error::Error>),
}

impl Failure {
    /// Prints the error and its causes.
    pub(super) fn report(self) -> ExitCode {
        match self {
            Self::Config(errors) => {
                let count = errors.iter().count();
                let mistakes = if count == 1 { "mistake" } else { "mistakes" };
                let drawn = errors.render(&GraphicalReportHandler::new());
                // Nothing can be done if stderr is closed; the exit status still tells.
                let _ = write!(io::stderr(), "error: not a valid run, {count} {mistakes}:\n{drawn}");
                ExitCode::from(2)
            }
            Self::Arguments(error) => {
                let _ = writeln!(io::stderr(), "error: {error}");
                ExitCode::from(2)
            }
            Self::NobodyReads => ExitCode::SUCCESS,
            Self::Other(error) => {
                let _ = writeln!(io::stderr(), "error: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// A run of timed layers has learnt nothing.
#[derive(Debug, thiserror::Error)]
#[error(
    "the run's model is of family \"timed\", which computes nothing: there is nothing to {0}; use a run of a GPT"
)]
pub(super) struct NothingLearnt(pub(super) &'static str);

/// What a costs file says nothing of, with the file's name.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub(super) struct OfCostsFile {
    /// The file.
    pub(super) path: PathBuf,
    /// What it lacks.
    pub(super) source: PredictError,
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

macro_rules! other {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Other(Box::new(error))
            }
        })+
    };
}

other!(
    PredictError,
    CostsFileError,
    pipezero_schedule::simulate::MemoryError,
    NotWritten,
    PlanError,
    EngineError,
    TrainingError,
    TraceError,
    RunDirError,
    DataError,
    NothingLearnt,
    OfCostsFile,
    OutError,
    ProfileError
);

impl From<SimulateError> for Failure {
    fn from(error: SimulateError) -> Self {
        Self::Arguments(Box::new(error))
    }
}

impl From<TracedStepsError> for Failure {
    fn from(error: TracedStepsError) -> Self {
        Self::Arguments(Box::new(error))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Other(Box::new(error)),
        }
    }
}
