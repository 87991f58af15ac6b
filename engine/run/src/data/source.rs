//! What the engine asks for micro-batches.

use std::error::Error;

use super::token_batch::TokenBatch;

/// Why a source cannot fill a micro-batch.
pub type BatchError = Box<dyn Error + Send + Sync>;

/// Fills micro-batches; users implement it for their own data.
///
/// Several threads ask at once, and the first and the last pipeline stage, or with `data.document_attention` every stage, ask for the same
/// micro-batch: the result must depend on the arguments only.
pub trait BatchSource: Send + Sync {
    /// Fills `batch` with micro-batch `micro_batch` of data rank `data_rank` at `step`, which counts from 1.
    ///
    /// # Errors
    /// Any error of the source; it stops the run.
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError>;

    /// How many tokens each sequence of a micro-batch has, if not as many as the model's sequences: at least 1, and no more than these. What
    /// is allocated is for the longest; what is computed and sent is for these.
    ///
    /// Every rank asks, before the step's first instruction, and all pipeline ranks of a data rank must get the same: the result must depend on the arguments
    /// only.
    fn seq_length(&self, _step: u64, _data_rank: usize, _micro_batch: usize) -> Option<usize> {
        None
    }

    /// How often the data has been read through once this step has ended: 1.5 after one and a half passes. Data without
    /// an end is never read through.
    fn epoch(&self, _step: u64) -> f64 {
        0.0
    }
}

/// A function that fills micro-batches is a source of data without an end.
impl<F> BatchSource for F
where
    F: Fn(u64, usize, usize, &mut TokenBatch) -> Result<(), BatchError> + Send + Sync,
{
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        self(step, data_rank, micro_batch, batch)
    }
}

/// Micro-batches of zeros: for models that read no tokens.
#[derive(Clone, Copy, Debug)]
pub struct Zeros;

impl BatchSource for Zeros {
    fn micro_batch(&self, _: u64, _: usize, _: usize, batch: &mut TokenBatch) -> Result<(), BatchError> {
        batch.inputs.fill(0);
        batch.targets.fill(0);
        Ok(())
    }
}

/// A source without data: for engines that only compute logits.
#[derive(Clone, Copy, Debug)]
pub struct NoBatches;

impl BatchSource for NoBatches {
    fn micro_batch(&self, _: u64, _: usize, _: usize, _: &mut TokenBatch) -> Result<(), BatchError> {
        Err("this engine was made without data".into())
    }
}
