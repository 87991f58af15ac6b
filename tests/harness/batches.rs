//! Random token batches that depend on the sample alone, never on the grid.

use pipezero::plan::Plan;
use pipezero::run::data::{BatchError, BatchLayout, BatchSource, TokenBatch};
use pipezero::train::batch_layout;
use pipezero_models::layer::IGNORED_TARGET;

/// Which targets carry no loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All carry loss.
    None,
    /// Long runs of a sample's targets are ignored, in some samples all but one, so that micro-batches and data ranks
    /// hold very different numbers of targets.
    Uneven,
    /// None carries loss.
    All,
}

/// Random tokens below the vocabulary size, in documents of random lengths, of which the first of a row may have begun in another.
#[derive(Clone, Debug)]
pub struct RandomBatches {
    layout: BatchLayout,
    vocab_size: usize,
    mask: Mask,
}

impl RandomBatches {
    /// Batches for a plan.
    pub fn for_plan(plan: &Plan, mask: Mask) -> Self {
        Self { layout: batch_layout(plan), vocab_size: plan.vocab_size(), mask }
    }

    fn token(&self, sample: u64, position: usize) -> u32 {
        (hash(sample * 4096 + position as u64) % self.vocab_size as u64) as u32
    }

    fn is_ignored(&self, sample: u64, position: usize) -> bool {
        match self.mask {
            Mask::None => false,
            Mask::Uneven => (position as u64) < hash(!sample) % self.layout.seq_length as u64,
            Mask::All => true,
        }
    }

    /// These batches, with a fault where rank `rank` has read micro-batch 1 of step 2.
    pub fn with_fault(
        self,
        rank: usize,
        fault: impl Fn(&mut TokenBatch) -> Result<(), BatchError> + Send + Sync,
    ) -> impl BatchSource {
        self.edited(move |step, micro_batch, batch| {
            // Both ends of a pipeline ask for the same micro-batch; the rank's thread has its name.
            let thread = std::thread::current();
            let is_rank = thread.name().is_some_and(|name| name.starts_with(&format!("rank-{rank}.")));
            if is_rank && (step, micro_batch) == (2, 1) { fault(batch) } else { Ok(()) }
        })
    }

    /// These batches, each edited before a rank uses it; `edit` gets the step, the micro-batch and its tokens.
    pub fn edited<E>(self, edit: E) -> impl BatchSource
    where
        E: Fn(u64, usize, &mut TokenBatch) -> Result<(), BatchError> + Send + Sync,
    {
        move |step: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
            self.micro_batch(step, data_rank, micro_batch, batch)?;
            edit(step, micro_batch, batch)
        }
    }
}

impl BatchSource for RandomBatches {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let BatchLayout { num_micro_batches, micro_batch_size, seq_length, .. } = self.layout;
        let first = (data_rank * num_micro_batches + micro_batch) * micro_batch_size;
        for row in 0..micro_batch_size {
            let sample = step * self.layout.train_batch_size() as u64 + (first + row) as u64;
            let mut start = 0;
            for position in 0..seq_length {
                // Every third token begins a document.
                if position > 0 && hash(hash(sample) ^ position as u64).is_multiple_of(3) {
                    start = position as u32;
                }
                batch.document_starts[row * seq_length + position] = start;
                let at = row * seq_length + position;
                batch.inputs[at] = self.token(sample, position);
                let target = self.token(sample, position + 1);
                batch.targets[at] = if self.is_ignored(sample, position) { IGNORED_TARGET } else { target };
            }
        }
        Ok(())
    }
}

/// SplitMix64's finaliser: well mixed and the same everywhere.
fn hash(value: u64) -> u64 {
    let mut bits = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
