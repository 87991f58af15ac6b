//! Lines of `metrics.jsonl`: one per step, one per evaluation. What is unknown is null, never left out.

use pipezero_run::engine::{EvalReport, LossPart, StepReport};
use serde::{Serialize, Serializer};

/// One training step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepLine {
    /// The step, from 1.
    pub step: u64,
    /// How often the training text has been read once this step has ended.
    pub epoch: f64,
    /// Mean loss before the update, nats per token; null if no token carries loss, or the loss overflowed in fp16.
    pub loss: Option<f64>,
    /// What the loss reports beside its value, an object of means by name; left out where it reports nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "means_by_name")]
    pub loss_parts: Vec<LossPart>,
    /// Norm of all gradients before clipping; null if one overflowed in fp16.
    pub grad_norm: Option<f64>,
    /// Learning rate.
    pub lr: f64,
    /// Tokens of this step that carry loss.
    pub tokens: u64,
    /// Tokens per second of this step.
    pub tokens_per_s: f64,
    /// As [`StepReport::step_s`].
    pub step_s: f64,
    /// Seconds of wall time from the end of the step before to the end of this one: all that the process did between them is included, such as an evaluation, a checkpoint, and
    /// steps of other engines. Null for the first step of a start.
    pub wall_s: Option<f64>,
    /// 10^12 floating-point operations per second over the whole grid, by the model's formula.
    pub tflops: f64,
    /// Share of the devices' peak in the type of the run; null where that is not known, as on a CPU.
    pub mfu: Option<f64>,
    /// Mean seconds that a rank waited for gathers and reductions of the step.
    pub exposed_comm_s: f64,
    /// Mean seconds that a rank waited for others: for gathers and reductions, in the pipeline's bubble, for transfers between
    /// stages and at the end of the step.
    pub idle_s: f64,
    /// Loss scale; null unless in fp16.
    pub loss_scale: Option<f64>,
    /// Loss scale of the next step, whose line has it too; `None` unless in fp16.
    #[serde(skip)]
    pub next_loss_scale: Option<f64>,
    /// Whether the update was skipped.
    pub skipped: bool,
}

impl StepLine {
    /// The line of a step.
    ///
    /// `peak_flops_per_s` is that of all devices together, where it is known.
    pub fn new(
        report: &StepReport,
        epoch: f64,
        wall_s: Option<f64>,
        step_flops: u128,
        peak_flops_per_s: Option<f64>,
    ) -> Self {
        Self {
            step: report.step,
            epoch,
            loss: report.loss,
            loss_parts: report.loss_parts.clone(),
            grad_norm: report.gradient_norm.is_finite().then_some(report.gradient_norm),
            lr: report.learning_rate,
            tokens: report.num_targets,
            tokens_per_s: report.num_targets as f64 / report.step_s,
            step_s: report.step_s,
            wall_s,
            tflops: step_flops as f64 / report.step_s / 1e12,
            mfu: peak_flops_per_s.map(|peak| step_flops as f64 / report.step_s / peak),
            exposed_comm_s: report.exposed_comm_s,
            idle_s: report.idle_s,
            loss_scale: report.loss_scale,
            next_loss_scale: report.next_loss_scale,
            skipped: report.skipped,
        }
    }
}

/// One evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvalLine {
    /// Always `eval`.
    pub kind: &'static str,
    /// The step after which it was made.
    pub step: u64,
    /// Mean loss on the validation text, nats per token; null if no token carries loss.
    pub validation_loss: Option<f64>,
    /// As [`StepLine::loss_parts`].
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "means_by_name")]
    pub loss_parts: Vec<LossPart>,
    /// Tokens that carry loss.
    pub tokens: u64,
}

impl EvalLine {
    /// What `kind` is in the lines of evaluations.
    pub(super) const KIND: &str = "eval";

    /// The line of an evaluation.
    pub fn new(step: u64, report: &EvalReport) -> Self {
        Self {
            kind: Self::KIND,
            step,
            validation_loss: report.loss,
            loss_parts: report.loss_parts.clone(),
            tokens: report.num_targets,
        }
    }
}

/// Parts of a loss as an object of their means.
pub(super) fn means_by_name<S: Serializer>(parts: &[LossPart], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(parts.iter().map(|part| (part.name, part.mean)))
}
