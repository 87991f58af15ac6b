//! What a run file says about learning, and what replaces it in the file of an engine that computes logits for a student.

use std::path::Path;

use super::{batch, changed_default, checkpoint, data, init, model, optimizer, rules, scheduler, train_only};
use crate::raw::RawRun;
use crate::resolved::{
    BatchConfig, CheckpointConfig, DataConfig, EvaluationConfig, InitConfig, ModelConfig, NamePattern,
    OptimizerConfig, Purpose, SchedulerConfig,
};
use crate::student_run::StudentRun;

use super::rules::count_or_auto;

/// The purpose for which a run file is resolved.
#[derive(Clone, Copy)]
pub(crate) enum Role<'a> {
    /// To train.
    Trains,
    /// To evaluate or to generate, with batches of its own.
    Infers,
    /// To compute logits of a student's batches.
    Teaches(StudentRun<'a>),
}

impl<'a> Role<'a> {
    pub(super) fn student(self) -> Option<StudentRun<'a>> {
        match self {
            Self::Trains | Self::Infers => None,
            Self::Teaches(student) => Some(student),
        }
    }

    /// The smallest vocabulary that the data goes with.
    pub(super) fn fewest_tokens(self, raw: &RawRun) -> usize {
        match self {
            Self::Trains | Self::Infers => data::fewest_tokens(&raw.data),
            Self::Teaches(_) => 1,
        }
    }

    pub(super) fn purpose(self) -> Purpose {
        match self {
            Self::Trains => Purpose::Training,
            Self::Infers | Self::Teaches(_) => Purpose::Inference,
        }
    }
}

/// What a run learns from, and how.
pub(super) struct Learning {
    pub(super) init: InitConfig,
    pub(super) data: DataConfig,
    pub(super) evaluation: EvaluationConfig,
    pub(super) optimizer: OptimizerConfig,
    pub(super) train_only: Option<Vec<NamePattern>>,
    pub(super) scheduler: SchedulerConfig,
    pub(super) gradient_clipping: f64,
    pub(super) checkpoint: CheckpointConfig,
    pub(super) steps: u64,
}

/// As the file says.
pub(super) fn learning(
    raw: &RawRun,
    role: Role<'_>,
    folder: &Path,
    batch: Option<&BatchConfig>,
    model: Option<&ModelConfig>,
) -> Option<Learning> {
    let reads_text = model::may_read_text(&raw.model);
    let data = data::resolve(&raw.data, reads_text, folder);
    let evaluation = data::resolve_evaluation(&raw.evaluation, reads_text);
    let optimizer = optimizer::resolve(&raw.optimizer);
    let steps = rules::steps(raw, batch, model);
    let scheduler = scheduler::resolve(&raw.scheduler, optimizer.as_ref(), steps);
    let train_only = train_only::resolve(raw);
    let checkpoint = checkpoint::resolve(&raw.checkpoint);
    let gradient_clipping = raw.gradient_clipping.not_negative(raw.gradient_clipping.auto_or(1.0));
    changed_default::GRADIENT_CLIPPING.say_of(&raw.gradient_clipping);
    data::check_documents(&raw.data, model);
    let lengths = data::check_lengths(&raw.data, model);
    let init = match role {
        Role::Infers => Some(InitConfig::default()),
        Role::Trains | Role::Teaches(_) => init::resolve(&raw.init, folder),
    };
    Some(Learning {
        init: init?,
        data: lengths.and(data)?,
        evaluation: evaluation?,
        optimizer: optimizer?,
        train_only: train_only?,
        scheduler: scheduler?,
        gradient_clipping: gradient_clipping?,
        checkpoint: checkpoint?,
        steps: steps?,
    })
}

/// That of the student's run; what the file itself says has no effect.
pub(super) fn learning_of(raw: &RawRun, student: StudentRun<'_>, folder: &Path) -> Option<Learning> {
    let why = format!(
        "no effect here: this engine computes logits of `{}`'s batches, and is not trained",
        student.name
    );
    let heads = [
        &raw.data.head,
        &raw.evaluation.head,
        &raw.optimizer.head,
        &raw.scheduler.head,
        &raw.checkpoint.head,
    ];
    for head in heads.into_iter().filter(|head| head.is_written) {
        head.site.hint(why.as_str());
    }
    let fields = [
        (raw.train_batch_size.is_written(), &raw.train_batch_size.site),
        (raw.gradient_accumulation_steps.is_written(), &raw.gradient_accumulation_steps.site),
        (raw.gradient_clipping.is_written(), &raw.gradient_clipping.site),
        (raw.steps.is_written(), &raw.steps.site),
        (raw.train_only.is_written(), &raw.train_only.site),
    ];
    for (_, site) in fields.into_iter().filter(|(is_written, _)| *is_written) {
        site.hint(why.as_str());
    }
    let run = student.run;
    let new =
        raw.init.new.absent(|_| "written".to_owned(), "a teacher computes with weights that are all there");
    let init = init::resolve(&raw.init, folder);
    Some(Learning {
        init: new.and(init)?,
        data: run.data.clone(),
        evaluation: run.evaluation.clone(),
        optimizer: run.optimizer.clone(),
        train_only: None,
        scheduler: run.scheduler.clone(),
        gradient_clipping: run.gradient_clipping,
        checkpoint: CheckpointConfig::default(),
        steps: run.steps,
    })
}

/// The file's batches, `kept` sequences in a step of a resumed run; those of the student's run for an engine with a student.
pub(super) fn batch(
    raw: &RawRun,
    data: Option<usize>,
    kept: Option<usize>,
    student: Option<StudentRun<'_>>,
) -> Option<BatchConfig> {
    match student {
        Some(student) => batch_of(raw, data, student),
        None => batch::resolve(raw, data, kept),
    }
}

/// The batches of the student's run, in micro-batches of its size or of the file's own.
fn batch_of(raw: &RawRun, data: Option<usize>, student: StudentRun<'_>) -> Option<BatchConfig> {
    let own = count_or_auto(&raw.train_micro_batch_size_per_gpu)?;
    let (data, batch) = (data?, student.run.batch);
    let train_batch_size = batch.train_batch_size;
    let micro_batch_size = own.unwrap_or(batch.micro_batch_size);
    let share = micro_batch_size.checked_mul(data).filter(|&share| train_batch_size.is_multiple_of(share));
    if let Some(share) = share {
        return Some(BatchConfig {
            train_batch_size,
            micro_batch_size,
            num_micro_batches: train_batch_size / share,
        });
    }
    let name = student.name;
    let batches = format!(
        "`{name}` has {train_batch_size} sequences in a step, which data ranks share out in equal micro-batches"
    );
    let divides = |share: usize| train_batch_size.is_multiple_of(share);
    match own {
        Some(_) => {
            let rule =
                format!("{batches}, and with data degree {data} such micro-batches do not divide them");
            let fitting = (1..=micro_batch_size.min(train_batch_size))
                .rev()
                .find(|micro| divides(micro.saturating_mul(data)));
            let repair = fitting.map_or_else(
                || format!("use a data degree that divides {train_batch_size}"),
                |fitting| format!("use a number such as {fitting}"),
            );
            raw.train_micro_batch_size_per_gpu.broken(micro_batch_size, rule, repair)
        }
        None => {
            let rule = format!(
                "{batches}, and micro-batches of {micro_batch_size}, as `{name}` has them, times this data degree do not divide them"
            );
            let fitting = (1..=data.min(train_batch_size))
                .rev()
                .find(|data| divides(data.saturating_mul(micro_batch_size)))
                .unwrap_or(1);
            let repair =
                format!("use a data degree such as {fitting}, or write `train_micro_batch_size_per_gpu`");
            raw.parallel.data.broken(data, rule, repair)
        }
    }
}
