//! What a rank is given for a step, and what it reports of it.

use std::time::Duration;

use pipezero_partition::{RankMemory, Traffic};
use serde::{Deserialize, Serialize};

use super::recorder::RecordedEvent;
use super::step_sums::StepRecord;
use super::waited::Waited;

/// What a rank has to know about a training step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepInputs {
    /// The step, from 1: which batch is read and which elements are dropped.
    pub(crate) step: u64,
    /// The number of this update of the weights, from 1: steps that overflowed do not count.
    pub(crate) update: u64,
    /// The optimizer's rate in this step.
    pub(crate) learning_rate: f64,
    /// What the loss is multiplied by, so that small gradients survive in fp16; 1 elsewhere.
    pub(crate) loss_scale: f64,
    /// Whether events are recorded.
    pub(crate) records: bool,
}

/// What a rank knows after it ran a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankOutcome {
    /// Losses and targets of the whole grid; in training also the squares of all gradients.
    pub(crate) record: StepRecord,
    /// Norm of all gradients before clipping; 0 in an evaluation.
    pub(crate) gradient_norm: f64,
    /// Whether the loss or a gradient is not finite, so that the weights were left as they are.
    pub(crate) overflowed: bool,
    /// What this rank could not read of the step's tokens: then the weights were left as they are too.
    pub(crate) unread: Option<String>,
    /// The digest of its tokens: the sum over all ranks is 0 where both ends of the pipeline have read the same. 0 in an evaluation.
    pub(crate) tokens_digest: u64,
    /// What differs from rank to rank.
    pub(crate) report: RankReport,
}

/// What one rank did and held.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RankReport {
    /// Calls and bytes.
    pub(crate) traffic: Traffic,
    /// The most bytes that it has held so far.
    pub(crate) memory: RankMemory,
    /// How long its compute queue waited for others.
    pub(crate) waited: Waited,
    /// How long its compute queue took.
    pub(crate) elapsed: Duration,
    /// What happened to its instructions and when, if recorded.
    pub events: Vec<RecordedEvent>,
}

/// What the optimizer needs to know of the whole grid, once the ranks have exchanged it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// The sums over the whole grid.
    pub(crate) record: StepRecord,
    /// Norm of all gradients before clipping.
    pub(crate) gradient_norm: f64,
    /// Whether the loss or a gradient is not finite: then nothing is updated.
    pub(crate) overflowed: bool,
    /// What every gradient is multiplied by: the loss's normalisation, divided by its scale, and the clipping.
    pub(super) gradient_scale: f32,
}
