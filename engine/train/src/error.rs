//! Why a training run failed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use pipezero_comm::world::WorldError;
use pipezero_measure::trace::TraceError;
use pipezero_run::data::DataError;
use pipezero_run::engine::{EngineError, Report};

use super::run_dir_error::RunDirError;
use super::same_inputs::Difference;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The data of the run file.
    #[error("`{key}`: {0}", key = .0.key())]
    Data(#[from] DataError),
    /// The ranks.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine whose logits the run learns from; the run's own ranks are as they were.
    #[error("its teacher `{name}`: {error}")]
    Teacher {
        /// The engine.
        name: String,
        /// Its error.
        error: Box<EngineError>,
    },
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The ranks of a run among several are others than those of its plan.
    #[error(
        "it is said to have ranks {given:?} of all, and its plan is for {} from rank {}; give `RunInTurn::ranks` those of the plan",
        counted_ranks(*needed), first.map_or_else(|| "any".to_owned(), |first| first.to_string())
    )]
    OtherRanks {
        /// Those that it is said to have.
        given: Range<usize>,
        /// How many the plan is for.
        needed: usize,
        /// From which on, if the plan says it (`comm.first_rank`).
        first: Option<usize>,
    },
    /// Processes have read different things.
    #[error("{difference}: {repair}")]
    OtherInput {
        /// The first that differs.
        difference: Box<Difference>,
        /// The repair.
        repair: &'static str,
    },
    /// A file that processes are to compare.
    #[error("{}: {source}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A step that was to be traced.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The run ended with an error, and its state was saved.
    #[error("{error}\nthe state after step {step} is saved in {}{}", path.display(), way_on_after(*step, path))]
    Saved {
        /// The error.
        error: Box<TrainingError>,
        /// Steps done.
        step: u64,
        /// The run directory, or the one to which it was rescued.
        path: PathBuf,
    },
    /// The run ended with an error, and its state with it.
    #[error("{error}\n{}", what_is_left(*step, *checkpoint, *has_weights, path, &way_on(path)))]
    Lost {
        /// The error.
        error: Box<TrainingError>,
        /// Steps done.
        step: u64,
        /// The step of its newest checkpoint.
        checkpoint: Option<u64>,
        /// Whether the weights after these steps were saved.
        has_weights: bool,
        /// The run directory.
        path: PathBuf,
    },
    /// The run ended with an error, and its state could not be saved.
    #[error(
        "{error}\nthe state after step {step} could not be saved: {why}; name another folder for such a case with --rescue"
    )]
    NotSaved {
        /// The error.
        error: Box<TrainingError>,
        /// Steps done.
        step: u64,
        /// Why it could not be saved in the last place that was tried.
        why: Box<TrainingError>,
    },
}

fn counted_ranks(count: usize) -> String {
    if count == 1 { "1 rank".to_owned() } else { format!("{count} ranks") }
}

/// How the ranks have stopped, if that is the error.
fn stopped(error: &EngineError) -> Option<&Report> {
    match error {
        EngineError::Stopped(report) => Some(report),
        _ => None,
    }
}

/// Whether another process of the job says what has failed.
fn is_said_by_another(error: &EngineError) -> bool {
    matches!(error, EngineError::Elsewhere | EngineError::World(WorldError::SaidByAnother))
}

/// What is left of a run whose ranks have lost its state.
fn what_is_left(step: u64, checkpoint: Option<u64>, has_weights: bool, path: &Path, go_on: &str) -> String {
    let path = path.display();
    match checkpoint {
        Some(newest) if newest == step => {
            format!("no step is lost: the newest finished checkpoint is that of step {step}{go_on}")
        }
        _ if has_weights => format!("the weights after step {step} are saved in {path}"),
        Some(newest) => format!(
            "what the run did after step {newest}, that of its newest finished checkpoint, is lost{go_on}"
        ),
        None => "what the run did is lost: no checkpoint was finished (`checkpoint.every` and `checkpoint.minutes` say when one is begun)"
            .to_owned(),
    }
}

impl TrainingError {
    /// How the ranks have stopped, if that is what has ended the run.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Self::Engine(error) => stopped(error),
            Self::Teacher { error, .. } => stopped(error),
            Self::Lost { error, .. } => error.report(),
            Self::NotSaved { error, why, .. } => error.report().or_else(|| why.report()),
            _ => None,
        }
    }

    /// The error of a run among others, with which one goes on by another command than with it alone.
    pub(super) fn among_others(&self) -> String {
        match self {
            Self::Saved { error, step, path } => {
                format!("{error}\nits state after step {step} is saved in {}", path.display())
            }
            Self::Lost { error, step, checkpoint, has_weights, path } => {
                format!("{error}\n{}", what_is_left(*step, *checkpoint, *has_weights, path, ""))
            }
            error => error.to_string(),
        }
    }

    /// Whether every process of the run has the same error.
    pub fn is_of_all(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_of_all(),
            Self::Teacher { error, .. } => error.is_of_all(),
            Self::OtherInput { .. } => true,
            Self::Saved { error, .. } | Self::Lost { error, .. } => error.is_of_all(),
            Self::NotSaved { error, why, .. } => error.is_of_all() && why.is_of_all(),
            _ => false,
        }
    }

    /// Whether only another process failed, which says why.
    pub fn is_elsewhere(&self) -> bool {
        match self {
            Self::Engine(error) => is_said_by_another(error),
            Self::Teacher { error, .. } => is_said_by_another(error),
            Self::Saved { error, .. } | Self::Lost { error, .. } => error.is_elsewhere(),
            // One that has its own error says that; here another has failed to save, and says so.
            Self::NotSaved { error, why, .. } => {
                (error.is_elsewhere() || error.is_of_all()) && why.is_elsewhere()
            }
            _ => false,
        }
    }

    /// Whether the engine still has the weights of a step.
    pub(super) fn leaves_weights(&self) -> bool {
        match self {
            Self::Engine(error) => matches!(
                error,
                EngineError::LossScale { .. }
                    | EngineError::NotFinite { .. }
                    | EngineError::Unread { .. }
                    | EngineError::EvaluationNotFinite { .. }
                    | EngineError::UnreadEvaluation { .. }
                    | EngineError::Checkpoint(_)
                    | EngineError::Weights(_)
                    | EngineError::Elsewhere
            ),
            // If a process has ended, the student's ranks report it too.
            Self::Teacher { error, .. } => stopped(error).is_none(),
            Self::RunDir(_) | Self::Trace(_) => true,
            Self::Data(_)
            | Self::OtherInput { .. }
            | Self::Unread { .. }
            | Self::OtherRanks { .. }
            | Self::Saved { .. }
            | Self::Lost { .. }
            | Self::NotSaved { .. } => false,
        }
    }
}

/// How to go on from a checkpoint.
fn way_on(path: &Path) -> String {
    format!(": go on from there with the same command and --resume --out {}", path.display())
}

/// How to go on with a saved state.
fn way_on_after(step: u64, path: &Path) -> String {
    match step {
        // Weights alone: there is nothing else before the first step.
        0 => String::new(),
        _ => format!(": go on with the same command and --resume --out {}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lost_its_state_names_the_checkpoint_to_go_on_with() {
        let said = |step, checkpoint, has_weights| {
            let error = Box::new(TrainingError::Engine(EngineError::AlreadyStopped));
            let path = PathBuf::from("runs/a");
            TrainingError::Lost { error, step, checkpoint, has_weights, path }.to_string()
        };
        let cases = [
            said(50, Some(40), false),
            said(50, Some(50), true),
            said(50, Some(40), true),
            said(50, None, false),
        ];
        let lines = cases.map(|text| text.lines().last().unwrap().to_owned());
        let expected = [
            "what the run did after step 40, that of its newest finished checkpoint, is lost: go on from there with the same command and --resume --out runs/a",
            "no step is lost: the newest finished checkpoint is that of step 50: go on from there with the same command and --resume --out runs/a",
            "the weights after step 50 are saved in runs/a",
            "what the run did is lost: no checkpoint was finished (`checkpoint.every` and `checkpoint.minutes` say when one is begun)",
        ];
        assert_eq!(lines, expected);
    }

    /// Of processes whose run ended for a reason that all know, or one has, and in which saving may fail too.
    #[test]
    fn each_failure_is_said_by_a_process() {
        let engine = TrainingError::Engine;
        let not_finite = || EngineError::EvaluationNotFinite { what: "a loss".to_owned() };
        let (alike, elsewhere) = (|| engine(not_finite()), || engine(EngineError::Elsewhere));
        let taught = |error| TrainingError::Teacher { name: "large".to_owned(), error: Box::new(error) };
        let own = || TrainingError::RunDir(RunDirError::Unfinished { path: PathBuf::from("runs/a") });
        let not_saved = |error, why| {
            let [error, why] = [error, why].map(Box::new);
            TrainingError::NotSaved { error, step: 2, why }
        };
        let saved =
            |error| TrainingError::Saved { error: Box::new(error), step: 2, path: PathBuf::from("runs/a") };
        for (error, is_of_all, is_elsewhere) in [
            (alike(), true, false),
            (engine(EngineError::World(WorldError::SaidByAnother)), false, true),
            (taught(not_finite()), true, false),
            (taught(EngineError::Elsewhere), false, true),
            (saved(alike()), true, false),
            (saved(elsewhere()), false, true),
            (saved(own()), false, false),
            (not_saved(alike(), own()), false, false),
            (not_saved(alike(), elsewhere()), false, true),
            (not_saved(own(), elsewhere()), false, false),
            (not_saved(elsewhere(), own()), false, false),
        ] {
            assert_eq!((error.is_of_all(), error.is_elsewhere()), (is_of_all, is_elsewhere), "{error:?}");
        }
    }
}
