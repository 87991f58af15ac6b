//! Random token batches that depend on the sample alone, never on the grid.

use pipezero_models::layer::IGNORED_TARGET;
use pipezero_models::split_mix::mixed;
use pipezero_plan::Plan;
use pipezero_run::data::{BatchError, BatchLayout, BatchSource, TokenBatch};
use pipezero_train::batch_layout;

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

/// How many tokens of its sequences a micro-batch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All.
    Longest,
    /// Another number of them in each micro-batch of each step.
    Drawn,
    /// All, but those behind what would be drawn carry no loss: nothing that counts sees them.
    Masked,
}

/// Random tokens below the vocabulary size, in documents of random lengths, of which the first of a row may have begun in another.
#[derive(Clone, Debug)]
pub struct RandomBatches {
    layout: BatchLayout,
    vocab_size: usize,
    mask: Mask,
    lengths: Lengths,
}

impl RandomBatches {
    /// Batches for a plan.
    pub fn for_plan(plan: &Plan, mask: Mask) -> Self {
        Self { layout: batch_layout(plan), vocab_size: plan.vocab_size(), mask, lengths: Lengths::Longest }
    }

    /// These batches, but for their lengths.
    pub fn with_lengths(self, lengths: Lengths) -> Self {
        Self { lengths, ..self }
    }

    /// Tokens of each sequence of a micro-batch, as they are drawn.
    pub fn drawn_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> usize {
        let place = (step * 64 + data_rank as u64) * 64 + micro_batch as u64;
        1 + (mixed(mixed(place)) % self.layout.seq_length as u64) as usize
    }

    fn token(&self, sample: u64, position: usize) -> u32 {
        (mixed(sample * 4096 + position as u64) % self.vocab_size as u64) as u32
    }

    fn is_ignored(&self, sample: u64, position: usize) -> bool {
        match self.mask {
            Mask::None => false,
            Mask::Uneven => (position as u64) < mixed(!sample) % self.layout.seq_length as u64,
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
        let BatchLayout { num_micro_batches, micro_batch_size, .. } = self.layout;
        let seq_length = batch.inputs.len() / micro_batch_size;
        let counted = match self.lengths {
            Lengths::Masked => self.drawn_length(step, data_rank, micro_batch),
            Lengths::Longest | Lengths::Drawn => seq_length,
        };
        let first = (data_rank * num_micro_batches + micro_batch) * micro_batch_size;
        for row in 0..micro_batch_size {
            let sample = step * self.layout.train_batch_size() as u64 + (first + row) as u64;
            let mut start = 0;
            for position in 0..seq_length {
                // Every third token begins a document.
                if position > 0 && mixed(mixed(sample) ^ position as u64).is_multiple_of(3) {
                    start = position as u32;
                }
                batch.document_starts[row * seq_length + position] = start;
                let at = row * seq_length + position;
                batch.inputs[at] = self.token(sample, position);
                let target = self.token(sample, position + 1);
                let is_ignored = position >= counted || self.is_ignored(sample, position);
                batch.targets[at] = if is_ignored { IGNORED_TARGET } else { target };
            }
        }
        Ok(())
    }

    fn seq_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> Option<usize> {
        (self.lengths == Lengths::Drawn).then(|| self.drawn_length(step, data_rank, micro_batch))
    }
}
