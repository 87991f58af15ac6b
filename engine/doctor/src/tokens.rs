//! Tokens drawn at random, so that a run can be examined without its text.

use pipezero_models::split_mix::mixed;
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchLayout, BatchSource, TokenBatch};
use pipezero_train::batch_layout;

/// Batches that depend on the sample alone: the same on every grid of one data degree and batch size.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrawnTokens {
    layout: BatchLayout,
    vocab_size: usize,
}

impl DrawnTokens {
    /// For a plan.
    pub(super) fn of(plan: &Plan) -> Self {
        Self { layout: batch_layout(plan), vocab_size: plan.vocab_size().max(1) }
    }

    fn token(&self, sample: u64, position: usize) -> u32 {
        let seed = sample.wrapping_mul(0x0001_0000_0001_B3B5).wrapping_add(position as u64);
        (mixed(seed) % self.vocab_size as u64) as u32
    }
}

impl BatchSource for DrawnTokens {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let BatchLayout { num_micro_batches, micro_batch_size, seq_length, .. } = self.layout;
        let first = (data_rank * num_micro_batches + micro_batch) * micro_batch_size;
        let of_step = step * self.layout.train_batch_size() as u64;
        let places = (0..micro_batch_size).flat_map(|row| (0..seq_length).map(move |at| (row, at)));
        for ((row, position), (input, target)) in
            places.zip(batch.inputs.iter_mut().zip(batch.targets.iter_mut()))
        {
            let sample = of_step + (first + row) as u64;
            *input = self.token(sample, position);
            *target = self.token(sample, position + 1);
        }
        Ok(())
    }
}
