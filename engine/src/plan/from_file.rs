//! From a run file to its plan, with everything that is wrong or worth knowing at its key, line and column.

use pipezero_partition::Purpose;

use super::alternatives::{Change, Changes, CountedRanks, Needs, changes_that_fit};
use super::error::{ALL_PERSISTENT_REPAIR, LackingMemory, all_persistent_rule};
use super::frozen::TRAIN_ONLY;
use super::refusal::costs_of_zero_2;
use super::remarks::{PARAM_THRESHOLD, PARAMETERS, Remark, UNIT};
use super::vocabulary::built;
use super::{Plan, PlanError};
use crate::config::{ConfigErrors, DataPath, HeadLogits, Launch, Notice, Problem, Run, RunFile};

/// Why a run file has no plan.
#[derive(Debug, thiserror::Error)]
pub enum FromFileError {
    /// Something in the file is wrong, at its place.
    #[error(transparent)]
    File(#[from] ConfigErrors),
    /// The file is sound, and the run cannot be planned.
    #[error("{0}")]
    Plan(PlanError),
    /// The file is sound, and a rank needs more memory than it has.
    #[error("{error}{}", Changes { changes, of: CountedRanks::Fullest })]
    Memory {
        /// What needs how much.
        error: Box<PlanError>,
        /// Changes to the file with which every rank fits, the mildest first.
        changes: Vec<Change>,
    },
}

impl Plan {
    /// Resolves and plans a run file; the notices are those of the file and of the plan, in the order of the file.
    ///
    /// # Errors
    /// Everything that is wrong with the file, at once; else what refuses the plan.
    pub fn from_file(file: &RunFile, launch: Launch) -> Result<(Self, Vec<Notice>), FromFileError> {
        Self::from_file_with(file, launch, &|_| None)
    }

    /// As [`Plan::from_file`], and asks `fault` of every training text what is wrong with it
    /// ([`RunFile::resolve_with`]).
    ///
    /// # Errors
    /// Those of [`Plan::from_file`], and every text with a fault.
    pub fn from_file_with(
        file: &RunFile,
        launch: Launch,
        fault: &dyn Fn(DataPath<'_>) -> Option<String>,
    ) -> Result<(Self, Vec<Notice>), FromFileError> {
        let resolved = file.resolve_with(launch, fault);
        let (run, mut notices) = resolved.map_err(|errors| errors.with_costs(costs_of_zero_2))?;
        let plan = Self::new(run.clone()).map_err(|error| at_its_key(error, file, &run))?;
        let remarks = plan.remarks().into_iter();
        // DeepSpeed's default is told as what "auto" became; that it persists nothing is no news then.
        let is_of_auto = |remark: &Remark| {
            remark.keys == PARAM_THRESHOLD && file.place(remark.keys).written() == "\"auto\""
        };
        let of_plan = remarks
            .filter(|remark| !is_of_auto(remark))
            .map(|remark| Notice::new(remark.kind, &file.place(remark.keys), remark.text));
        notices.extend(of_plan);
        notices.sort_by_key(Notice::order);
        Ok((plan, notices))
    }
}

/// The error at the key that it is about; a lack of memory with the changes that would fit.
fn at_its_key(error: PlanError, file: &RunFile, run: &Run) -> FromFileError {
    if let Some(LackingMemory { limit_bytes, .. }) = error.lacking_memory() {
        let fits = |needs: Needs| needs.rank_bytes <= limit_bytes;
        // A run that leaves it open did not fit with recomputed logits either.
        let head_logits = run.vocabulary.head_logits.unwrap_or(HeadLogits::Recompute);
        let changes = match built(run, head_logits) {
            Ok((run, model)) => changes_that_fit(&run, &model, Purpose::Training, &fits),
            Err(_) => Vec::new(),
        };
        return FromFileError::Memory { error: Box::new(error), changes };
    }
    let (keys, problem): (&[&str], Problem) = match &error {
        PlanError::LoneUnit(refusal) => (UNIT, Problem::Refused(refusal.clone())),
        PlanError::Pattern { pattern, fault } => (
            &["parallel.partition"],
            Problem::Rule {
                value: format!("\"type:{pattern}\""),
                rule: fault.to_string(),
                repair: fault.repair().to_owned(),
            },
        ),
        PlanError::AllPersistent { num_units, pipeline } => (
            if run.zero.sharding.rules().is_empty() { PARAM_THRESHOLD } else { PARAMETERS },
            Problem::Rule {
                value: match run.zero.sharding.rules() {
                    [] => run.zero.param_persistence_threshold.to_string(),
                    rules => format!("{:?}", rules.iter().map(ToString::to_string).collect::<Vec<_>>()),
                },
                rule: all_persistent_rule(*num_units, *pipeline),
                repair: ALL_PERSISTENT_REPAIR.to_owned(),
            },
        ),
        PlanError::ShardingRule { rule, fault } => (
            PARAMETERS,
            Problem::Rule {
                value: format!("\"{rule}\""),
                rule: fault.to_string(),
                repair: fault.repair().to_owned(),
            },
        ),
        PlanError::TrainOnly { pattern, fault } => (
            TRAIN_ONLY,
            Problem::Rule {
                value: format!("\"{pattern}\""),
                rule: fault.to_string(),
                repair: fault.repair().to_owned(),
            },
        ),
        _ => return FromFileError::Plan(error),
    };
    FromFileError::File(file.error_at(keys, problem))
}
