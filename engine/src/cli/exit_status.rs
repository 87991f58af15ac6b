//! Which errors are mistakes in the input: the exit status of a command.

use pipezero_schedule::simulate::MemoryError;
use pipezero_schedule::simulate::cluster::ClusterError;

use crate::measure::profile::{ProfileError, TooManySteps};
use crate::measure::trace::{TraceError, TracedStepsError};
use crate::plan::PlanError;
use crate::plan::costs::{CostsFileError, PredictError};
use crate::plan::what_if::SimulationError;
use crate::run::data::DataError;
use crate::run::engine::{EngineError, WeightsError};
use crate::train::{RunDirError, TrainingError};

/// What `--help` says of exit statuses.
pub(super) const STATUSES: &str = "\
Exit status: 0 for success; 2 for a mistake in the input: an argument, the run file, or another file or folder that they name (texts, schedules, costs, traces, weights); 1 if the input is valid but the command cannot be done: it does not fit into memory, it is too large to be simulated, drawn or explained, a file or folder that would be written exists already, the system refuses, the ranks stop.";

/// Decides the exit status of an error: 2 for a mistake in the input, else 1.
pub(super) trait InputMistake {
    /// Whether the command can succeed once its input is corrected.
    fn is_input_mistake(&self) -> bool;
}

/// Implements the trait for errors that are all of one kind.
macro_rules! all {
    ($is_input_mistake:literal: $($error:ty),+) => {
        $(impl InputMistake for $error {
            fn is_input_mistake(&self) -> bool {
                $is_input_mistake
            }
        })+
    };
}

all!(true: TracedStepsError, CostsFileError, DataError);
all!(false: MemoryError, TooManySteps);

impl InputMistake for ClusterError {
    /// A run with too many instructions to be simulated rank by rank is valid.
    fn is_input_mistake(&self) -> bool {
        !matches!(self, Self::TooManyInstructions { .. })
    }
}

impl InputMistake for PredictError {
    /// Costs that belong to another run, or are too large to be added up.
    fn is_input_mistake(&self) -> bool {
        if let Self::Cluster(error) = self { error.is_input_mistake() } else { true }
    }
}

impl InputMistake for SimulationError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::Costs(error) | Self::Step(error) => error.is_input_mistake(),
            Self::OneNode { .. } => true,
        }
    }
}

impl InputMistake for PlanError {
    /// The rules of the run file that only a plan can check.
    fn is_input_mistake(&self) -> bool {
        matches!(self, Self::Pattern { .. } | Self::LoneUnit(_))
    }
}

impl InputMistake for RunDirError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::NoRun { .. } | Self::Unfinished { .. } | Self::Summary { .. } => true,
            Self::Exists { .. } | Self::NotARun { .. } | Self::Io { .. } => false,
        }
    }
}

impl InputMistake for TraceError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::NoTrace { .. } | Self::Parse { .. } | Self::OtherStep { .. } | Self::Unreadable { .. } => {
                true
            }
            Self::Recorded { .. } | Self::Io { .. } => false,
        }
    }
}

impl InputMistake for WeightsError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::OtherModel { .. } => true,
            Self::Io { .. } => false,
        }
    }
}

impl InputMistake for EngineError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::Weights(error) => error.is_input_mistake(),
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

impl InputMistake for TrainingError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::Data(error) => error.is_input_mistake(),
            Self::Engine(error) => error.is_input_mistake(),
            Self::RunDir(error) => error.is_input_mistake(),
            Self::Trace(error) => error.is_input_mistake(),
        }
    }
}

impl InputMistake for ProfileError {
    fn is_input_mistake(&self) -> bool {
        match self {
            Self::NoSteps => true,
            Self::Engine(error) => error.is_input_mistake(),
            Self::Skipped { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn valid_input_that_is_too_large_is_not_a_mistake() {
        let too_large = || ClusterError::TooManyInstructions { num_instructions: 1 << 40 };
        let unknown = || ClusterError::UnknownRank { rank: 7, world_size: 4 };
        let unfinished = || RunDirError::Unfinished { path: PathBuf::from("out") };
        let cases: [(&dyn InputMistake, bool); 9] = [
            (&PredictError::Cluster(too_large()), false),
            (&PredictError::Cluster(unknown()), true),
            (&SimulationError::Step(PredictError::Cluster(too_large())), false),
            (&SimulationError::Step(PredictError::Cluster(unknown())), true),
            (&SimulationError::OneNode { world_size: 4 }, true),
            (&TrainingError::Data(DataError::NoValidation), true),
            (&TrainingError::Engine(EngineError::AlreadyStopped), false),
            (&unfinished(), true),
            (&TrainingError::RunDir(unfinished()), true),
        ];
        for (index, (error, expected)) in cases.into_iter().enumerate() {
            assert_eq!(error.is_input_mistake(), expected, "case {index}");
        }
    }
}
