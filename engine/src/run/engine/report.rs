//! The results of a training step and of an evaluation.

use std::time::Duration;

use serde::Serialize;

use crate::run::executor::{Event, RankOutcome, StepInputs, Waited};
use crate::run::memory::Ledger;
use pipezero_partition::{RankMemory, Traffic};

/// The result of one training step.
#[derive(Clone, Debug)]
pub struct StepReport {
    /// The step, from 1.
    pub step: u64,
    /// Mean loss of the step before the update, nats per target; `None` if no target carries loss, or
    /// the loss itself overflowed in fp16.
    pub loss: Option<f64>,
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
    /// The longest rank's time, seconds.
    pub step_s: f64,
    /// Mean seconds that a rank waited for gathers and reductions of the step that nothing hid.
    pub exposed_comm_s: f64,
    /// Mean seconds that a rank waited for others in all: those, the pipeline's bubble, exposed transfers between stages
    /// and the end of the step.
    pub idle_s: f64,
    pub(crate) ranks: Vec<RankOutcome>,
}

impl StepReport {
    pub(super) fn new(inputs: StepInputs, loss_scale: Option<f64>, ranks: Vec<RankOutcome>) -> Self {
        let first = ranks.first().expect("a grid has at least one rank");
        let num_targets = first.record.num_targets();
        let mean = |waited: fn(Waited) -> Duration| {
            let sum: f64 = ranks.iter().map(|rank| waited(rank.waited).as_secs_f64()).sum();
            sum / ranks.len() as f64
        };
        Self {
            step: inputs.step,
            loss: first.record.mean_loss(),
            gradient_norm: first.gradient_norm,
            learning_rate: inputs.learning_rate,
            num_targets,
            loss_scale,
            next_loss_scale: loss_scale,
            skipped: num_targets == 0 || first.overflowed,
            step_s: ranks.iter().map(|rank| rank.elapsed.as_secs_f64()).fold(0.0, f64::max),
            exposed_comm_s: mean(Waited::exposed),
            idle_s: mean(Waited::total),
            ranks,
        }
    }

    /// Calls and bytes of each rank in this step, by world rank.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.ranks.iter().map(|rank| rank.traffic).collect()
    }

    /// What happened to the instructions of a world rank's row, in the order in which it happened; nothing unless the engine
    /// records ([`crate::Engine::recording`]).
    pub fn events(&self, rank: usize) -> &[Event] {
        &self.ranks[rank].events
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalReport {
    /// Mean loss, nats per target; `None` if no target carries loss.
    pub loss: Option<f64>,
    /// Targets that carry loss.
    pub num_targets: u64,
}

impl EvalReport {
    pub(super) fn new(ranks: &[RankOutcome]) -> Self {
        let record = &ranks.first().expect("a grid has at least one rank").record;
        Self { loss: record.mean_loss(), num_targets: record.num_targets() }
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

impl MeasuredRank {
    pub(super) fn new(rank: usize, ledger: &Ledger, outcome: &RankOutcome) -> Self {
        Self { rank, memory: ledger.peaks(), traffic: outcome.traffic }
    }
}
