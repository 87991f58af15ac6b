//! From a run file to its plan, with everything that is wrong or worth knowing at its key, line and column.

use std::sync::Arc;

use pipezero_config::{
    ConfigErrors, DataPath, HeadLogits, Notice, Problem, Resources, Run, RunFile, StudentRun,
    VocabularyConfig, ZeroLevel,
};
use pipezero_models::{Distillation, DistillationLoss, Model, VocabularyOptions};

use super::alternatives::{Change, Changes, CountedRanks, Needs, changes_that_fit};
use super::diagnostics::{Diagnostic, PARAM_THRESHOLD, PARAMETERS, UNIT};
use super::error::{LackingMemory, NOTHING_TRAINED_REPAIR, NOTHING_TRAINED_RULE};
use super::frozen::TRAIN_ONLY;
use super::new_parameters::NEW;
use super::refusal::costs_of_zero_2;
use super::unmatched_names::{UNMATCHED_REPAIR, UnmatchedNames};
use super::vocabulary::built;
use super::{Plan, PlanError};

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
    pub fn from_file(file: &RunFile, resources: Resources) -> Result<(Self, Vec<Notice>), FromFileError> {
        Self::from_file_with(file, resources, &|_| None)
    }

    /// As [`Plan::from_file`], and asks `fault` of every training text what is wrong with it
    /// ([`RunFile::resolve_with`]).
    ///
    /// # Errors
    /// Those of [`Plan::from_file`], and every text with a fault.
    pub fn from_file_with(
        file: &RunFile,
        resources: Resources,
        fault: &dyn Fn(DataPath<'_>) -> Option<String>,
    ) -> Result<(Self, Vec<Notice>), FromFileError> {
        Self::from_file_of(file, resources, fault, None)
    }

    /// As [`Plan::from_file_with`], of a student that learns from a teacher's logits too.
    ///
    /// # Errors
    /// As those of [`Plan::from_file_with`]; where the file cuts the vocabulary, or does not keep logits.
    pub fn of_student(
        file: &RunFile,
        resources: Resources,
        fault: &dyn Fn(DataPath<'_>) -> Option<String>,
        distillation: Distillation,
    ) -> Result<(Self, Vec<Notice>), FromFileError> {
        Self::from_file_of(file, resources, fault, Some(distillation))
    }

    /// Resolves and plans the file of an engine that computes logits for a student.
    ///
    /// # Errors
    /// As those of [`Plan::from_file`].
    pub fn for_inference(
        file: &RunFile,
        resources: Resources,
        student: StudentRun<'_>,
    ) -> Result<(Self, Vec<Notice>), FromFileError> {
        let resolved = file.resolve_for_inference(resources, student);
        let (run, notices) = resolved.map_err(|errors| errors.with_costs(costs_of_zero_2))?;
        let plan = Self::new(run.clone()).map_err(|error| at_its_key(error, file, &run, None))?;
        Ok((plan, notices))
    }

    fn from_file_of(
        file: &RunFile,
        resources: Resources,
        fault: &dyn Fn(DataPath<'_>) -> Option<String>,
        distillation: Option<Distillation>,
    ) -> Result<(Self, Vec<Notice>), FromFileError> {
        let resolved = file.resolve_with(resources, fault);
        let (run, mut notices) = resolved.map_err(|errors| errors.with_costs(costs_of_zero_2))?;
        let planned = match distillation {
            Some(distillation) => {
                check_whole_rows(file, &run)?;
                with_distillation(&run, distillation).and_then(|(run, model)| Self::with_model(run, model))
            }
            None => Self::new(run.clone()),
        };
        let plan = planned.map_err(|error| at_its_key(error, file, &run, distillation))?;
        let diagnostics = plan.diagnostics().into_iter();
        // The notice for "auto" already shows DeepSpeed's default; skip the diagnostic that nothing persists.
        let is_of_auto = |diagnostic: &Diagnostic| {
            diagnostic.keys == PARAM_THRESHOLD && file.place(diagnostic.keys).written() == "\"auto\""
        };
        let of_plan = diagnostics
            .filter(|diagnostic| !is_of_auto(diagnostic))
            .map(|diagnostic| Notice::new(diagnostic.kind, &file.place(diagnostic.keys), diagnostic.text));
        notices.extend(of_plan);
        notices.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok((plan, notices))
    }
}

/// A student's run and model.
fn with_distillation(run: &Run, distillation: Distillation) -> Result<(Run, Model), PlanError> {
    let vocab_size = run.model.gpt().map_or(0, |gpt| gpt.vocab_size);
    let model = run.model.build_with_loss(Arc::new(DistillationLoss { distillation, vocab_size }))?;
    let vocabulary = VocabularyConfig::of_caller(VocabularyOptions::WHOLE);
    Ok((Run { vocabulary, ..run.clone() }, model))
}

/// Refuses what a student's file says of the vocabulary, where its loss reads whole rows of logits.
fn check_whole_rows(file: &RunFile, run: &Run) -> Result<(), ConfigErrors> {
    let rule = |value: String, key: &str, repair: &str| {
        let rule =
            "a student's loss reads all logits of a token at once, beside those of its teacher".to_owned();
        Err(file.error_at(&[key], Problem::Rule { value, rule, repair: repair.to_owned() }))
    };
    match (run.vocabulary.num_slices, run.vocabulary.head_logits) {
        (Some(num_slices), _) if num_slices > 1 => {
            rule(num_slices.to_string(), "zero_optimization.vocabulary_slices", "use 1, or leave it out")
        }
        (_, Some(HeadLogits::Recompute)) => rule(
            "\"recompute\"".to_owned(),
            "activation_checkpointing.head_logits",
            "use \"keep\", or leave it out",
        ),
        _ => Ok(()),
    }
}

/// The error at the key that it is about; a lack of memory with the changes that would fit.
fn at_its_key(
    error: PlanError,
    file: &RunFile,
    run: &Run,
    distillation: Option<Distillation>,
) -> FromFileError {
    if let Some(LackingMemory { limit_bytes, .. }) = error.lacking_memory() {
        let fits = |needs: Needs| needs.rank_bytes <= limit_bytes;
        // A run that leaves it open did not fit with recomputed logits either.
        let head_logits = run.vocabulary.head_logits.unwrap_or(HeadLogits::Recompute);
        let built = match distillation {
            Some(distillation) => with_distillation(run, distillation),
            None => built(run, head_logits),
        };
        let mut changes = match built {
            Ok((run, model)) => changes_that_fit(&run, &model, &fits),
            Err(_) => Vec::new(),
        };
        if run.zero.level < ZeroLevel::Zero3 && file.has(PARAMETERS[0]) {
            // ZeRO-3 was tried without the list, which is passed over below it.
            let to_zero_3 = changes.iter_mut().filter(|change| change.description.contains("\"stage\": 3"));
            to_zero_3.for_each(|change| change.description += ", \"parameters\": []");
        }
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
        PlanError::Zero2Ranks(ranks) => (
            if run.zero.sharding.rules().is_empty() { PARAM_THRESHOLD } else { PARAMETERS },
            Problem::Rule {
                value: match run.zero.sharding.rules() {
                    [] => run.zero.param_persistence_threshold.to_string(),
                    rules => format!("{:?}", rules.iter().map(ToString::to_string).collect::<Vec<_>>()),
                },
                rule: ranks.to_string(),
                repair: ranks.repair(),
            },
        ),
        PlanError::ShardingRules(fault) => return unmatched(file, PARAMETERS[0], fault),
        PlanError::NewParameters(fault) => return unmatched(file, NEW, fault),
        PlanError::TrainOnly(fault) => return unmatched(file, TRAIN_ONLY, fault),
        PlanError::NothingTrained { patterns } => (
            &[TRAIN_ONLY] as &[&str],
            Problem::Rule {
                value: format!("[{patterns}]"),
                rule: NOTHING_TRAINED_RULE.to_owned(),
                repair: NOTHING_TRAINED_REPAIR.to_owned(),
            },
        ),
        _ => return FromFileError::Plan(error),
    };
    FromFileError::File(file.error_at(keys, problem))
}

/// Entries of a list that match no name, each at its place.
fn unmatched(file: &RunFile, key: &str, fault: &UnmatchedNames) -> FromFileError {
    let problem = |(index, entry): &(usize, String)| {
        let (rule, repair) = (fault.to_string(), UNMATCHED_REPAIR.to_owned());
        (*index, Problem::Rule { value: format!("\"{entry}\""), rule, repair })
    };
    FromFileError::File(file.errors_at_elements(key, fault.entries.iter().map(problem)))
}
