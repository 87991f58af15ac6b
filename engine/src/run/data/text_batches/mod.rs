//! Micro-batches of a text, the same samples on every grid.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::sampler::Permutation;
use super::source::{BatchError, BatchSource};
use super::token_batch::TokenBatch;

/// How the samples of a step are distributed. A step's batch is contiguous, a data rank takes a contiguous share of it,
/// and a micro-batch is contiguous within that share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLayout {
    /// Data ranks.
    pub data_degree: usize,
    /// Micro-batches of a step on each data rank.
    pub num_micro_batches: usize,
    /// B: sequences of a micro-batch.
    pub micro_batch_size: usize,
    /// T: tokens of a sequence.
    pub seq_length: usize,
}

impl BatchLayout {
    /// Sequences of a step over all data ranks.
    pub fn train_batch_size(&self) -> usize {
        self.data_degree * self.num_micro_batches * self.micro_batch_size
    }

    /// The indices of a micro-batch's sequences in the step's batch.
    fn sequences(&self, data_rank: usize, micro_batch: usize) -> Range<usize> {
        let first = (data_rank * self.num_micro_batches + micro_batch) * self.micro_batch_size;
        first..first + self.micro_batch_size
    }
}

/// Micro-batches of a text whose tokens are its bytes.
///
/// Sample `i` is the window of `T + 1` tokens that begins at `i * T`: inputs and targets overlap in all but one token,
/// and every token is a target once per epoch. Sequence `i` of step `s` is number
/// `(s - 1) * train_batch_size + i` of the seeded permutations, whatever the grid. A run that goes on with another batch size goes on
/// with the sequence after the last that it has read ([`TextBatches::starting_at`]).
#[derive(Clone, Debug)]
pub struct TextBatches {
    text: Vec<u8>,
    layout: BatchLayout,
    permutation: Permutation,
    start: Start,
}

/// Where a run goes on in its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Steps that have been done.
    pub num_steps: u64,
    /// Sequences that they have read, of whatever batch size.
    pub num_sequences: u64,
}

impl TextBatches {
    /// Micro-batches of this text; `None` if it is shorter than `seq_length + 1` or `seq_length` is 0.
    pub fn new(text: Vec<u8>, layout: BatchLayout, seed: u64) -> Option<Self> {
        let num_samples = text.len().checked_sub(1)?.checked_div(layout.seq_length)?;
        let permutation = Permutation::new(num_samples as u64, seed)?;
        Some(Self { text, layout, permutation, start: Start::default() })
    }

    /// The micro-batches of a run that has done some steps.
    pub fn starting_at(self, start: Start) -> Self {
        Self { start, ..self }
    }

    /// Sequences that have been read before a step.
    fn num_sequences_before(&self, step: u64) -> u64 {
        let num_steps = step - 1 - self.start.num_steps;
        self.start.num_sequences + num_steps * self.layout.train_batch_size() as u64
    }

    /// Number of samples of an epoch, at least one.
    pub fn num_samples(&self) -> u64 {
        self.permutation.num_samples()
    }
}

impl BatchSource for TextBatches {
    /// # Panics
    /// If `step` is not after the start or `batch` is not of the layout's size.
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let seq_length = self.layout.seq_length;
        let first_of_step = self.num_sequences_before(step);
        let rows = batch.inputs.chunks_exact_mut(seq_length).zip(batch.targets.chunks_exact_mut(seq_length));
        let sequences = self.layout.sequences(data_rank, micro_batch);
        assert_eq!(rows.len(), sequences.len(), "a micro-batch has micro_batch_size sequences");
        for (sequence, (inputs, targets)) in sequences.zip(rows) {
            let sample = self.permutation.sample(first_of_step + sequence as u64) as usize;
            let window = &self.text[sample * seq_length..][..seq_length + 1];
            for (position, (input, target)) in inputs.iter_mut().zip(targets).enumerate() {
                *input = u32::from(window[position]);
                *target = u32::from(window[position + 1]);
            }
        }
        Ok(())
    }

    fn epoch(&self, step: u64) -> f64 {
        self.num_sequences_before(step + 1) as f64 / self.num_samples() as f64
    }
}
