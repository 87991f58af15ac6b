//! Where the logits of prompts are written.

use pipezero_models::View;
use pipezero_models::layer::RowLogits;
use pipezero_schedule::MicroBatch;

use crate::run::memory::TrackedBuffer;

/// Where the head puts logits, while they are asked for.
#[derive(Debug)]
pub(super) struct AskedLogits {
    /// Of each micro-batch, the row after which a token may follow.
    rows: Vec<usize>,
    /// `[prompts, V]`.
    logits: TrackedBuffer,
    vocab_size: usize,
}

impl AskedLogits {
    /// Those after the last token of each prompt.
    pub(super) fn of_prompts(prompts: &[Vec<u32>], logits: TrackedBuffer, vocab_size: usize) -> Self {
        Self { rows: prompts.iter().map(|prompt| prompt.len() - 1).collect(), logits, vocab_size }
    }

    /// All of them.
    pub(super) fn view(&self) -> View<'_> {
        self.logits.view()
    }

    /// Those of a micro-batch; `None` of one that has no prompt.
    pub(super) fn of(&mut self, micro_batch: MicroBatch) -> Option<RowLogits<'_>> {
        let index = micro_batch.index();
        let &row = self.rows.get(index)?;
        let range = index * self.vocab_size..(index + 1) * self.vocab_size;
        Some(RowLogits { row, logits: self.logits.view_mut().range(range) })
    }
}
