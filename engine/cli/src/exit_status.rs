//! Which errors are mistakes in the input: the exit status of a command.

use pipezero_comm::world::WorldError;
use pipezero_config::hugging_face::HuggingFaceError;
use pipezero_measure::CoreTimesError;
use pipezero_measure::profile::{ProfileError, TooManySteps};
use pipezero_measure::trace::{TraceError, TracedStepsError};
use pipezero_plan::PlanError;
use pipezero_plan::costs::{CostsFileError, PredictError};
use pipezero_plan::what_if::SimulationError;
use pipezero_run::checkpoint::CheckpointError;
use pipezero_run::data::DataError;
use pipezero_run::engine::{EngineError, WeightsError};
use pipezero_schedule::simulate::MemoryError;
use pipezero_schedule::simulate::cluster::ClusterError;
use pipezero_train::{InTurnError, RunDirError, TrainingError};

use super::out_file::OutError;

/// What `--help` says of exit statuses.
pub(super) const STATUSES: &str = "\
Exit status: 0 for success; 2 for a mistake in the input: an argument, the run file, or another file or folder that they name (texts, schedules, costs, traces, weights), or hosts that lack what the run file asks for (GPUs, libraries, so many ranks each); 1 if the input is valid but the command cannot be done: it does not fit into memory, it is too large to be simulated, drawn or explained, a file or folder that would be written exists already, the system refuses, the ranks stop.";

/// Decides the exit status of an error: 2 for a mistake in the input, else 1.
pub(super) trait InputMistake {
    /// Whether the command can succeed once its input is corrected.
    fn is_input_mistake(&self) -> bool;
}

/// Says of errors by which test they are mistakes in the input.
macro_rules! input_mistakes {
    ($($error:ident: |$of:pat_param| $is_input_mistake:expr;)+) => {
        $(impl InputMistake for $error {
            fn is_input_mistake(&self) -> bool {
                let $of = self;
                $is_input_mistake
            }
        })+
    };
}

input_mistakes! {
    TracedStepsError: |_| true;
    CostsFileError: |_| true;
    DataError: |_| true;
    MemoryError: |_| false;
    CoreTimesError: |_| false;
    TooManySteps: |_| false;
    // A run with too many instructions to be simulated rank by rank is valid.
    ClusterError: |error| !matches!(error, ClusterError::TooManyInstructions { .. });
    // Costs that belong to another run, or are too large to be added up.
    PredictError: |error| if let PredictError::Cluster(error) = error { error.is_input_mistake() } else { true };
    SimulationError: |error| match error {
        SimulationError::Costs(error) | SimulationError::Step(error) => error.is_input_mistake(),
        SimulationError::OneNode { .. } => true,
    };
    // The rules of the run file that only a plan can check.
    PlanError: |error| {
        matches!(error, PlanError::Pattern { .. } | PlanError::LoneUnit(_))
    };
    RunDirError: |error| match error {
        RunDirError::NoRun { .. }
        | RunDirError::Unfinished { .. }
        | RunDirError::OnlyCheckpoints { .. }
        | RunDirError::BeingRemoved { .. }
        | RunDirError::LeftWeights { .. }
        | RunDirError::Summary { .. } => true,
        RunDirError::Checkpoint(error) => error.is_input_mistake(),
        RunDirError::Exists { .. }
        | RunDirError::RescueExists { .. }
        | RunDirError::WeightsAlone { .. }
        | RunDirError::Gone { .. }
        | RunDirError::Busy { .. }
        | RunDirError::NotOnAll { .. }
        | RunDirError::NoSpace { .. }
        | RunDirError::NoFiles { .. }
        | RunDirError::Limit(_)
        | RunDirError::NotARun { .. }
        | RunDirError::Unwritable { .. }
        | RunDirError::RescueUnwritable { .. }
        | RunDirError::Io { .. } => false,
    };
    TraceError: |error| match error {
        TraceError::NoTrace { .. }
        | TraceError::Parse { .. }
        | TraceError::OtherStep { .. }
        | TraceError::Unreadable { .. } => true,
        TraceError::Recorded { .. } | TraceError::Io { .. } => false,
    };
    WeightsError: |error| match error {
        WeightsError::Damaged { .. }
        | WeightsError::OtherModel { .. }
        | WeightsError::OfFolder { .. }
        | WeightsError::Unusable(_) => true,
        WeightsError::Published(error) => error.is_input_mistake(),
        WeightsError::Io { .. } => false,
    };
    HuggingFaceError: |error| !matches!(error, HuggingFaceError::Io { .. });
    CheckpointError: |error| match error {
        CheckpointError::Published(error) => error.is_input_mistake(),
        error => !matches!(error, CheckpointError::Io { .. }),
    };
    // Of the run or of its hosts, which another start does not mend.
    WorldError: |error| error.is_lasting();
    EngineError: |error| match error {
        EngineError::Weights(error) => error.is_input_mistake(),
        EngineError::Checkpoint(error) => error.is_input_mistake(),
        EngineError::World(error) => error.is_input_mistake(),
        EngineError::PromptToken { .. }
        | EngineError::PromptLength { .. }
        | EngineError::NumPrompts { .. }
        | EngineError::Unread { .. }
        | EngineError::UnreadEvaluation { .. } => true,
        EngineError::Stopped(_)
        | EngineError::AlreadyStopped
        | EngineError::Logits(_)
        | EngineError::OtherBatches
        | EngineError::Connect(_)
        | EngineError::Start { .. }
        | EngineError::Device { .. }
        | EngineError::WorldSize { .. }
        | EngineError::OtherRun
        | EngineError::PlanOfInference
        | EngineError::JointNames { .. }
        | EngineError::OtherTokens { .. }
        | EngineError::OtherInstructions { .. }
        | EngineError::OtherState { .. }
        | EngineError::Elsewhere
        | EngineError::Memory { .. }
        | EngineError::MemoryOfProcesses { .. }
        | EngineError::MemoryTogether { .. }
        | EngineError::ThreadsTogether { .. }
        | EngineError::Threads { .. }
        | EngineError::Limit(_)
        | EngineError::LossScale { .. }
        | EngineError::NotFinite { .. }
        | EngineError::EvaluationNotFinite { .. }
        | EngineError::LogitsNotFinite => false,
    };
    TrainingError: |error| match error {
        TrainingError::Data(error) => error.is_input_mistake(),
        TrainingError::Engine(error) => error.is_input_mistake(),
        TrainingError::Teacher { error, .. } => error.is_input_mistake(),
        TrainingError::RunDir(error) => error.is_input_mistake(),
        TrainingError::Trace(error) => error.is_input_mistake(),
        // Another start would find the same files.
        TrainingError::OtherInput { .. } => true,
        TrainingError::Unread { .. } => false,
        // A caller's of the library: the command line gives a run the ranks of its plan.
        TrainingError::OtherRanks { .. } => false,
        TrainingError::Saved { error, .. }
        | TrainingError::Lost { error, .. }
        | TrainingError::NotSaved { error, .. } => error.is_input_mistake(),
    };
    InTurnError: |error| error.error.is_input_mistake();
    ProfileError: |error| match error {
        ProfileError::NoSteps | ProfileError::KernelsOfCpu => true,
        ProfileError::Engine(error) => error.is_input_mistake(),
        ProfileError::Recorded { .. } | ProfileError::Device(_) | ProfileError::Skipped { .. } => false,
    };
    OutError: |_| false;
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
