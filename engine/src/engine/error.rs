//! What can go wrong with an engine.

use std::fmt;

use super::weights::WeightsError;
use crate::executor::RankFailure;

/// An error of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Ranks stopped.
    #[error("{0}")]
    Stopped(Report),
    /// The engine stopped earlier.
    #[error("the ranks have stopped after an earlier error; start a new engine")]
    AlreadyStopped,
    /// A rank's thread or thread pool could not be started.
    #[error("rank {rank} cannot be started: {reason}")]
    Start {
        /// The world rank.
        rank: usize,
        /// What the system said.
        reason: String,
    },
    /// A prompt that does not fit.
    #[error(
        "a prompt of {num_tokens} tokens: give at least 1 and at most {seq_length}, the model's sequence"
    )]
    PromptLength {
        /// Tokens of the prompt.
        num_tokens: usize,
        /// Tokens of a sequence.
        seq_length: usize,
    },
    /// Weights could not be written or read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
}

/// Where every rank was when one of them stopped, the one that failed first at the top.
#[derive(Debug)]
pub struct Report {
    /// The ranks' failures, in the order in which they came in.
    pub failures: Vec<RankFailure>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all ranks have stopped")?;
        for failure in &self.failures {
            write!(f, "\n  {failure}")?;
        }
        Ok(())
    }
}
