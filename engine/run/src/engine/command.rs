//! What the engine asks of every rank, and what a rank replies.

use std::path::Path;
use std::sync::Arc;

use super::save::SaveFile;
use super::weights_file::{Wanted, WeightsFile};
use crate::checkpoint::{CheckpointError, CheckpointReader, FileRecord};
use crate::data::BatchSource;
use crate::executor::{
    BatchLogits, FileToWrite, Findings, Probe, RankFailure, RankOutcome, ReadWeights, StepInputs,
};
use crate::unusable_value::UnusableValue;

/// What is asked of every rank.
#[derive(Clone)]
pub(super) enum Command {
    /// Draw the initial weights.
    Initialise,
    /// One training step.
    Train(StepInputs),
    /// Where the last step, which had these inputs, has ceased to be finite.
    FindInStep(StepInputs),
    /// The same of an evaluation, of this batch.
    FindInEvaluation { source: Arc<dyn BatchSource>, batch: u64 },
    /// Messages only, recorded.
    Probe(Arc<Probe>),
    /// Give back the memory that was held for what comes.
    Release,
    /// The loss of one batch.
    Evaluate { source: Arc<dyn BatchSource>, batch: u64 },
    /// The logits after each of these prompts, at most one for each micro-batch.
    Logits { prompts: Arc<[Vec<u32>]> },
    /// All logits of one batch, which ranks that have the head write there.
    BatchLogits { source: Arc<dyn BatchSource>, batch: u64, to: Arc<BatchLogits> },
    /// All weights go to rank 0, unit by unit, which writes them to this file; the other processes have none.
    Save(Option<Arc<SaveFile>>),
    /// Read the weights that this rank holds, and draw those that are not read from the file.
    Load(Arc<WeightsFile>),
    /// Write what this rank owns of the run's state to a file of its own in this folder.
    WriteState(Arc<Path>),
    /// Copy that, and have a thread write it while training goes on.
    WriteCopy(FileToWrite),
    /// Read what this rank holds of the run's state.
    ReadState(Arc<CheckpointReader>),
    /// Read the parameters that this rank holds, of a checkpoint, and draw those that are not wanted.
    ReadParameters { from: Arc<CheckpointReader>, wanted: Wanted },
}

impl Command {
    /// Whether ranks run a program, in which none is ahead of the others by more than a wait between ranks. What they read and write for
    /// themselves may take any time.
    pub(super) fn is_program(&self) -> bool {
        match self {
            Self::Train(_)
            | Self::FindInStep(_)
            | Self::FindInEvaluation { .. }
            | Self::Probe(_)
            | Self::Evaluate { .. }
            | Self::Logits { .. }
            | Self::BatchLogits { .. } => true,
            Self::Initialise
            | Self::Release
            | Self::Save(_)
            | Self::Load(_)
            | Self::WriteState(_)
            | Self::WriteCopy(_)
            | Self::ReadState(_)
            | Self::ReadParameters { .. } => false,
        }
    }
}

/// What a rank answers.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Outcome(Box<RankOutcome>),
    /// Logits, from rank 0.
    Values(Vec<f32>),
    /// What of the last step is not finite on this rank.
    Findings(Box<Findings>),
    /// The bytes that the rank has read of weights; or the first unusable value, such as NaN, in its part of them.
    Loaded(Result<ReadWeights, UnusableValue>),
    /// The rank's file of a checkpoint, or why it could not be written.
    Written(Result<FileRecord, CheckpointError>),
    /// The bytes of parameters that the rank has read of a checkpoint; or the error.
    Read(Result<ReadWeights, CheckpointError>),
}

/// A rank's reply to a command, or to being started.
pub(super) type Reply = Result<Answer, Box<RankFailure>>;
