//! What a rank's thread does: take a command, carry it out, answer.

use std::sync::Arc;
use std::time::Instant;

use pipezero_models::init;

use super::weights::WeightsFile;
use crate::run::comm::Communicator;
use crate::run::data::BatchSource;
use crate::run::executor::{Cause, Probe, Rank, RankOutcome, StepInputs};

/// What is asked of every rank.
#[derive(Clone)]
pub(super) enum Command {
    /// Draw the initial weights.
    Initialise,
    /// One training step.
    Train(StepInputs),
    /// Messages alone, whose events are timed from a moment on.
    Probe { probe: Arc<Probe>, recorded_since: Instant },
    /// The loss of one batch.
    Evaluate { source: Arc<dyn BatchSource>, batch: u64 },
    /// The logits after these tokens.
    Logits { tokens: Arc<[u32]> },
    /// A unit's whole parameters.
    WholeUnit(pipezero_schedule::Unit),
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

/// Carries out one command.
pub(super) fn serve<C: Communicator>(
    rank: &mut Rank<C>,
    command: Command,
    source: &dyn BatchSource,
) -> Result<Answer, Cause> {
    match command {
        Command::Initialise => {
            let seed = rank.plan.run().seed;
            rank.fill_parameters(|entry, first, values| {
                init::fill(&entry.spec, seed, first, values);
                Ok(())
            })?;
            Ok(Answer::Done)
        }
        Command::Train(inputs) => Ok(Answer::Outcome(Box::new(rank.train(inputs, source)?))),
        Command::Probe { probe, recorded_since } => {
            Ok(Answer::Outcome(Box::new(rank.probe(&probe, recorded_since)?)))
        }
        Command::Evaluate { source, batch } => {
            Ok(Answer::Outcome(Box::new(rank.evaluate(source.as_ref(), batch)?)))
        }
        Command::Logits { tokens } => Ok(rank.logits(&tokens)?.map_or(Answer::Done, Answer::Values)),
        Command::WholeUnit(unit) => Ok(rank.whole_unit(unit)?.map_or(Answer::Done, Answer::Values)),
        Command::Load(file) => {
            rank.fill_parameters(|entry, first, values| file.read(&entry.spec.name, first, values))?;
            Ok(Answer::Done)
        }
    }
}
