//! The one place that prints errors, and says with which status they end the process.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use miette::GraphicalReportHandler;
use pipezero_schedule::generate::SizeError;
use pipezero_schedule::simulate::MemoryError;
use pipezero_schedule::simulate::cluster::ClusterError;

use super::out_file::OutError;
use super::simulate::SimulateError;
use crate::config::ConfigErrors;
use crate::measure::profile::{ProfileError, TooManySteps};
use crate::measure::trace::{TraceError, TracedStepsError};
use crate::plan::costs::{CostsFileError, PredictError};
use crate::plan::{FromFileError, PlanError};
use crate::run::data::DataError;
use crate::run::engine::{EngineError, WeightsError};
use crate::train::{RunDirError, TrainingError};

/// What `--help` says of exit statuses.
pub(super) const STATUSES: &str = "\
Exit status: 0 where it was done; 2 where something that was given is wrong, an argument, the run file, or another file or folder that they name (texts, schedules, costs, traces, weights); 1 where all of that is sound and cannot be done: it does not fit into memory, it is larger than what is played, drawn or explained, something that would be written is there already, the system refuses, the ranks stop.";

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The run file or its overrides; exit status 2.
    Config(ConfigErrors),
    /// Anything else that was given; exit status 2, as for arguments that are none.
    Input(Box<dyn Error>),
    /// The reader of stdout has seen enough and closed it: no failure at all.
    NobodyReads,
    /// What came of sound input; exit status 1.
    Other(Box<dyn Error>),
}

impl Failure {
    /// Prints the error and its causes.
    pub(super) fn report(self) -> ExitCode {
        // Nothing can be done if stderr is closed; the exit status still tells.
        match self {
            Self::Config(errors) => {
                let count = errors.iter().count();
                let mistakes = if count == 1 { "mistake" } else { "mistakes" };
                let drawn = errors.render(&GraphicalReportHandler::new());
                let _ = write!(io::stderr(), "error: not a valid run, {count} {mistakes}:\n{drawn}");
                ExitCode::from(2)
            }
            Self::Input(error) => {
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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Other(Box::new(error)),
        }
    }
}

impl<E: Blame + Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        if error.is_of_input() { Self::Input(Box::new(error)) } else { Self::Other(Box::new(error)) }
    }
}

/// What an error is to be laid to: the one place that decides exit statuses.
trait Blame {
    /// Whether something that was given is wrong: whoever mends that can run the command again.
    fn is_of_input(&self) -> bool;
}

/// Errors that are all of one kind.
macro_rules! blame {
    ($is_of_input:literal: $($error:ty),+) => {
        $(impl Blame for $error {
            fn is_of_input(&self) -> bool {
                $is_of_input
            }
        })+
    };
}

blame!(true: TracedStepsError, CostsFileError, OfCostsFile, DataError, NothingLearnt);
blame!(false: OutError, MemoryError, TooManySteps);

impl Blame for ClusterError {
    /// A run that is too large to be played one by one is a run all the same.
    fn is_of_input(&self) -> bool {
        !matches!(self, Self::TooManyInstructions { .. })
    }
}

impl Blame for SimulateError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::World(error) => error.is_of_input(),
            Self::OrderFile(error) => !error.is_too_large(),
            Self::TooLarge { .. }
            | Self::TooManyStages { .. }
            | Self::TooLongToShow { .. }
            | Self::Size(SizeError::TooLarge { .. }) => false,
            _ => true,
        }
    }
}

impl Blame for PredictError {
    /// Costs that are not of the run, or whose sum no step can last.
    fn is_of_input(&self) -> bool {
        if let Self::World(error) = self { error.is_of_input() } else { true }
    }
}

impl Blame for PlanError {
    /// The rules of the run file that only a plan can check.
    fn is_of_input(&self) -> bool {
        matches!(self, Self::Pattern { .. } | Self::NoLayerMatches { .. } | Self::LoneUnit(_))
    }
}

impl From<FromFileError> for Failure {
    fn from(error: FromFileError) -> Self {
        match error {
            FromFileError::File(errors) => Self::Config(errors),
            FromFileError::Plan(error) => error.into(),
            sound @ FromFileError::Memory { .. } => Self::Other(Box::new(sound)),
        }
    }
}

impl Blame for RunDirError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::NoRun { .. } | Self::Unfinished { .. } | Self::Summary { .. } => true,
            Self::Exists { .. } | Self::NotARun { .. } | Self::Io { .. } => false,
        }
    }
}

impl Blame for TraceError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::NoTrace { .. } | Self::Parse { .. } | Self::OtherStep { .. } | Self::Unreadable { .. } => {
                true
            }
            Self::Recorded { .. } | Self::Io { .. } => false,
        }
    }
}

impl Blame for WeightsError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::OtherModel { .. } => true,
            Self::Io { .. } => false,
        }
    }
}

impl Blame for EngineError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::Weights(error) => error.is_of_input(),
            Self::PromptToken { .. } | Self::PromptLength { .. } => true,
            Self::Stopped(_)
            | Self::AlreadyStopped
            | Self::Start { .. }
            | Self::Memory { .. }
            | Self::LossScale { .. }
            | Self::LogitsNotFinite => false,
        }
    }
}

impl Blame for TrainingError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::Data(error) => error.is_of_input(),
            Self::Engine(error) => error.is_of_input(),
            Self::RunDir(error) => error.is_of_input(),
            Self::Trace(error) => error.is_of_input(),
        }
    }
}

impl Blame for ProfileError {
    fn is_of_input(&self) -> bool {
        match self {
            Self::NoSteps => true,
            Self::Engine(error) => error.is_of_input(),
            Self::Skipped { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sound_and_too_large_is_no_mistake_in_it() {
        let is_of_input = |failure: Failure| match failure {
            Failure::Input(_) => true,
            Failure::Other(_) => false,
            other => panic!("{other:?}"),
        };
        let too_large = || ClusterError::TooManyInstructions { num_instructions: 1 << 40 };
        let unknown = || ClusterError::UnknownRank { rank: 7, world_size: 4 };
        assert!(!is_of_input(PredictError::World(too_large()).into()));
        assert!(!is_of_input(SimulateError::World(too_large()).into()));
        assert!(is_of_input(PredictError::World(unknown()).into()));
        assert!(is_of_input(SimulateError::World(unknown()).into()));
        assert!(is_of_input(SimulateError::Nothing.into()));
        let too_large = [
            SimulateError::TooLarge { micro_batches: 9, num_instructions: 1 << 40, fitting: 8 },
            SimulateError::TooManyStages { num_ranks: 9000, stages_per_rank: 1, num_stages: 9000 },
            SimulateError::TooLongToShow { num_forwards: 1 << 20 },
            SizeError::TooLarge { num_stages: 1 << 20, num_micro_batches: 1 << 20 }.into(),
        ];
        assert!(too_large.into_iter().all(|error| !is_of_input(error.into())));
        assert!(is_of_input(SimulateError::Size(SizeError::NoRank).into()));
        assert!(is_of_input(TrainingError::Data(DataError::NoValidation).into()));
        assert!(!is_of_input(TrainingError::Engine(EngineError::AlreadyStopped).into()));
        let file = PathBuf::from("costs.json");
        let unfinished = || RunDirError::Unfinished { path: PathBuf::from("out") };
        assert!(is_of_input(unfinished().into()) && is_of_input(TrainingError::RunDir(unfinished()).into()));
        assert!(!is_of_input(OutError::Exists { path: file }.into()));
    }

    #[test]
    fn a_reader_who_has_gone_is_no_failure() {
        let gone = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(gone), Failure::NobodyReads));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(matches!(Failure::from(full), Failure::Other(_)));
    }
}
