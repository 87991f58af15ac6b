//! What the engine asks of every rank, and what a rank replies.

use std::sync::Arc;

use pipezero_schedule::Unit;

use super::weights_file::WeightsFile;
use crate::run::data::BatchSource;
use crate::run::executor::{Probe, RankFailure, RankOutcome, StepInputs};

/// What is asked of every rank.
#[derive(Clone)]
pub(super) enum Command {
    /// Draw the initial weights.
    Initialise,
    /// One training step.
    Train(StepInputs),
    /// Messages only, recorded.
    Probe(Arc<Probe>),
    /// The loss of one batch.
    Evaluate { source: Arc<dyn BatchSource>, batch: u64 },
    /// The logits after these tokens.
    Logits { tokens: Arc<[u32]> },
    /// A unit's whole parameters.
    WholeUnit(Unit),
    /// Read the weights that this rank holds.
    Load(Arc<WeightsFile>),
}

/// What a rank answers.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Outcome(Box<RankOutcome>),
    /// Logits or parameters, from the one rank that has them.
    Values(Vec<f32>),
}

/// A rank's reply to a command, or to being started.
pub(super) type Reply = Result<Answer, Box<RankFailure>>;
