//! The results of a training step and of an evaluation.

use std::time::Duration;

use pipezero_comm::world::ClockOffset;
use serde::{Deserialize, Serialize};

use crate::executor::{RankOutcome, RankReport, RecordedEvent, StepInputs, StepRecord, Waited};
use pipezero_partition::{RankMemory, Traffic};

/// What a loss reports beside its value ([`Loss::part_names`](pipezero_models::Loss::part_names)), over all ranks of a step or an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossPart {
    /// Its name.
    pub name: &'static str,
    /// Mean over the targets for which the loss has reported it; `None` if there are none, or if in a micro-batch the part is not finite or adds up to
    /// 2^28 or more.
    pub mean: Option<f64>,
    /// These targets.
    pub num_targets: u64,
}

impl LossPart {
    /// Those of a record whose loss has parts of these names.
    fn of_record(names: &[&'static str], record: &StepRecord) -> Vec<Self> {
        let parts = names.iter().zip(record.parts());
        parts.map(|(&name, (mean, num_targets))| Self { name, mean, num_targets }).collect()
    }
}

/// The result of one training step. Times, memory and traffic are those of all ranks in the process of rank 0, and of its own ranks in
/// another.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// The step, from 1.
    pub step: u64,
    /// Mean loss of the step before the update, nats per target; `None` if no target carries loss, or
    /// the loss itself overflowed in fp16.
    pub loss: Option<f64>,
    /// What the loss reports beside its value; empty where it reports nothing.
    pub loss_parts: Vec<LossPart>,
    /// Norm of all gradients before clipping; infinite if one overflowed in fp16.
    pub gradient_norm: f64,
    /// The step's learning rate.
    pub learning_rate: f64,
    /// Targets that carry loss.
    pub num_targets: u64,
    /// What the loss was multiplied by; `None` except in fp16.
    pub loss_scale: Option<f64>,
    /// What the next step's loss will be multiplied by; `None` except in fp16.
    pub next_loss_scale: Option<f64>,
    /// Whether the weights were left as they are: a gradient overflowed in fp16, or no target carries loss.
    pub skipped: bool,
    /// The longest rank's time, seconds, from where it begins with the step's program to the end of its last operation. A rank on a GPU measures it between two marks in the
    /// GPU's queue. What the process does between two steps is not in it.
    pub step_s: f64,
    /// Mean seconds that a rank waited for gathers and reductions of the step that nothing hid.
    pub exposed_comm_s: f64,
    /// Mean seconds that a rank waited for others in all: those, the pipeline's bubble, exposed transfers between stages
    /// and the end of the step.
    pub idle_s: f64,
    /// What is known of the ranks: of all in the process of rank 0, of their own in the others.
    pub processes: Vec<ProcessReport>,
}

/// What the ranks of one process did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// How far its clock is ahead of that of rank 0's process, where events are recorded.
    pub clock: ClockOffset,
    /// Its first rank.
    pub first_rank: usize,
    /// `[rank - first_rank]`
    pub ranks: Vec<RankReport>,
}

impl StepReport {
    /// From what the ranks found out together, and what each process reports.
    pub(super) fn new(
        inputs: StepInputs,
        loss_scale: Option<f64>,
        loss_parts: &[&'static str],
        outcome: &RankOutcome,
        processes: Vec<ProcessReport>,
    ) -> Self {
        let num_targets = outcome.record.num_targets();
        let mut report = Self {
            step: inputs.step,
            loss: outcome.record.mean_loss(),
            loss_parts: LossPart::of_record(loss_parts, &outcome.record),
            gradient_norm: outcome.gradient_norm,
            learning_rate: inputs.learning_rate,
            num_targets,
            loss_scale,
            next_loss_scale: loss_scale,
            skipped: num_targets == 0 || outcome.overflowed,
            step_s: 0.0,
            exposed_comm_s: 0.0,
            idle_s: 0.0,
            processes,
        };
        report.step_s = report.ranks().map(|(_, rank)| rank.elapsed.as_secs_f64()).fold(0.0, f64::max);
        report.exposed_comm_s = report.mean_waited_s(Waited::exposed);
        report.idle_s = report.mean_waited_s(Waited::total);
        report
    }

    fn mean_waited_s(&self, of: fn(Waited) -> Duration) -> f64 {
        let sum: f64 = self.ranks().map(|(_, rank)| of(rank.waited).as_secs_f64()).sum();
        sum / self.ranks().count() as f64
    }

    /// The ranks that are known, ascending.
    pub fn ranks(&self) -> impl Iterator<Item = (usize, &RankReport)> {
        self.processes.iter().flat_map(|process| (process.first_rank..).zip(&process.ranks))
    }

    /// Calls and bytes of each rank in this step, by world rank.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.ranks().map(|(_, rank)| rank.traffic).collect()
    }

    /// The most bytes that each rank had held when the step ended, and what it sent in it.
    pub fn measured(&self) -> Vec<MeasuredRank> {
        let measured = |(rank, report): (usize, &RankReport)| MeasuredRank {
            rank,
            memory: report.memory,
            traffic: report.traffic,
        };
        self.ranks().map(measured).collect()
    }

    /// What happened to the instructions of a world rank's row, in the order in which it happened, by the clock of the rank's
    /// process; nothing unless the step was recorded ([`crate::Engine::train_batch_recorded`]), or of a rank that is not known.
    pub fn events(&self, rank: usize) -> &[RecordedEvent] {
        self.ranks().find(|&(known, _)| known == rank).map_or(&[], |(_, report)| &report.events)
    }

    /// Share of the step that ranks spent waiting for others, mean over the ranks: bubble and exposed transfers.
    pub fn idle_share(&self) -> f64 {
        self.share(self.idle_s)
    }

    /// Share of the step that ranks spent waiting for gathers and reductions that nothing hid, mean over the ranks.
    pub fn exposed_comm_share(&self) -> f64 {
        self.share(self.exposed_comm_s)
    }

    fn share(&self, seconds: f64) -> f64 {
        if self.step_s > 0.0 { seconds / self.step_s } else { 0.0 }
    }
}

/// The result of evaluating one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalReport {
    /// Mean loss, nats per target; `None` if no target carries loss.
    pub loss: Option<f64>,
    /// What the loss reports beside its value; empty where it reports nothing.
    pub loss_parts: Vec<LossPart>,
    /// Targets that carry loss.
    pub num_targets: u64,
}

impl EvalReport {
    pub(super) fn new(loss_parts: &[&'static str], RankOutcome { record, .. }: &RankOutcome) -> Self {
        let loss_parts = LossPart::of_record(loss_parts, record);
        Self { loss: record.mean_loss(), loss_parts, num_targets: record.num_targets() }
    }
}

/// Measured memory and traffic of one rank, in the shape of `plan --json`.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredRank {
    /// The world rank.
    pub rank: usize,
    /// Peak bytes by category.
    pub memory: RankMemory,
    /// Calls and bytes of one step.
    pub traffic: Traffic,
}
