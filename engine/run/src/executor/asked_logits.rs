//! Where the logits that are asked for are written.

use std::sync::Arc;

use pipezero_comm::memory::TrackedBuffer;
use pipezero_models::View;
use pipezero_models::layer::{MicroBatchShape, RowLogits};
use pipezero_schedule::MicroBatch;

use super::batch_logits::BatchLogits;

/// Where the head puts logits, while they are asked for.
#[derive(Debug)]
pub(super) enum AskedLogits {
    /// Those after the last token of each prompt.
    OfPrompts {
        /// Of each micro-batch, the row after which a token may follow.
        rows: Vec<usize>,
        /// `[prompts, V]`.
        logits: TrackedBuffer,
        num_logits: usize,
    },
    /// All of a batch.
    OfBatch {
        /// Those of a micro-batch, block after block.
        logits: TrackedBuffer,
        num_logits: usize,
        /// Where they go from there.
        to: Arc<BatchLogits>,
    },
}

impl AskedLogits {
    /// Those after the last token of each prompt.
    pub(super) fn of_prompts(prompts: &[Vec<u32>], logits: TrackedBuffer, num_logits: usize) -> Self {
        let rows = prompts.iter().map(|prompt| prompt.len() - 1).collect();
        Self::OfPrompts { rows, logits, num_logits }
    }

    /// All that there are: of prompts `[prompts, V]`, of a batch those of its last micro-batch.
    pub(super) fn view(&self) -> View<'_> {
        let (Self::OfPrompts { logits, .. } | Self::OfBatch { logits, .. }) = self;
        logits.view()
    }

    /// Those of a micro-batch of this shape; `None` of one that has no prompt.
    pub(super) fn of(&mut self, micro_batch: MicroBatch, shape: MicroBatchShape) -> Option<RowLogits<'_>> {
        match self {
            Self::OfPrompts { rows, logits, num_logits } => {
                let index = micro_batch.index();
                let &row = rows.get(index)?;
                let range = index * *num_logits..(index + 1) * *num_logits;
                Some(RowLogits { rows: row..row + 1, logits: logits.view_mut().range(range) })
            }
            Self::OfBatch { logits, num_logits, .. } => {
                let num_rows = shape.num_tokens();
                let logits = logits.view_mut().range(0..num_rows * *num_logits);
                Some(RowLogits { rows: 0..num_rows, logits })
            }
        }
    }
}
