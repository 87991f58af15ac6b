//! How the samples of a step are distributed, and where a run goes on.

use std::ops::Range;

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
    pub fn sequences(&self, data_rank: usize, micro_batch: usize) -> Range<usize> {
        let first = (data_rank * self.num_micro_batches + micro_batch) * self.micro_batch_size;
        first..first + self.micro_batch_size
    }
}

/// Where a run goes on in its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Steps that have been done.
    pub num_steps: u64,
    /// Sequences that they have read, of whatever batch size.
    pub num_sequences: u64,
}
