//! The logits of a whole batch, in the host's memory: ranks that compute logits write them, whatever their grid, and ranks of another engine may
//! read them, whatever theirs.

use std::sync::{PoisonError, RwLock};

use pipezero_models::layer::MicroBatchShape;
use pipezero_models::shared::block_tokens;
use pipezero_models::{ElementType, ModelError, Queue, View};
use pipezero_plan::Plan;
use pipezero_schedule::MicroBatch;

use super::batch_layout::batch_layout;
use crate::data::BatchLayout;

/// The logits of a batch: `[sequences, T, V]` of f32, V those of a token. Of a sequence that is shorter than T, only the first rows are written.
#[derive(Debug)]
pub struct BatchLogits {
    layout: BatchLayout,
    num_logits: usize,
    /// `[data rank]`: those of its sequences.
    parts: Vec<RwLock<Vec<f32>>>,
}

impl BatchLogits {
    /// Room for the batches of a plan.
    ///
    /// # Errors
    /// When the host has no such memory left.
    pub fn for_plan(plan: &Plan) -> Result<Self, ModelError> {
        let (layout, num_logits) = (batch_layout(plan), plan.num_logits());
        let len = layout.num_micro_batches * layout.micro_batch_size * layout.seq_length * num_logits;
        let too_large = |_| ModelError::TooLarge { len, element_type: ElementType::F32 };
        let part = |_| {
            let mut part = Vec::new();
            part.try_reserve_exact(len).map_err(too_large)?;
            part.resize(len, 0.0);
            Ok::<_, ModelError>(RwLock::new(part))
        };
        let parts = (0..layout.data_degree).map(part).collect::<Result<_, _>>()?;
        Ok(Self { layout, num_logits, parts })
    }

    /// The number of sequences.
    pub fn num_sequences(&self) -> usize {
        self.layout.train_batch_size()
    }

    /// Logits of each token: V, unless the head has another number of them.
    pub fn num_logits(&self) -> usize {
        self.num_logits
    }

    /// Calls `read` with the first rows of a sequence, `[rows, V]`. Sequences are numbered over the batch: `data_rank * (batch / data degree) +
    /// micro_batch * micro_batch_size + position`, of whichever grid they were computed on.
    ///
    /// # Panics
    /// If there is no such sequence, or it has fewer rows.
    pub fn read<R>(&self, sequence: usize, num_rows: usize, read: impl FnOnce(&[f32]) -> R) -> R {
        let of_data_rank = self.layout.num_micro_batches * self.layout.micro_batch_size;
        let part = self.parts[sequence / of_data_rank].read().unwrap_or_else(PoisonError::into_inner);
        let first = sequence % of_data_rank * self.layout.seq_length * self.num_logits;
        read(&part[first..first + num_rows * self.num_logits])
    }

    /// Those of a data rank's sequences, one after the other.
    pub(crate) fn with_part<R>(&self, data_rank: usize, use_it: impl FnOnce(&mut [f32]) -> R) -> R {
        use_it(&mut self.parts[data_rank].write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether its sequences and their sizes are those of a plan's batches.
    pub(crate) fn is_for(&self, plan: &Plan) -> bool {
        (self.layout, self.num_logits) == (batch_layout(plan), plan.num_logits())
    }

    /// Copies those of a micro-batch out of a device's memory, where they lie block after block.
    pub(super) fn download(
        &self,
        queue: &dyn Queue,
        from: View<'_>,
        data_rank: usize,
        (micro_batch, shape): (MicroBatch, MicroBatchShape),
    ) -> Result<(), ModelError> {
        let (num_rows, width) = (shape.num_tokens(), self.num_logits);
        let each = block_tokens(width);
        let mut block = vec![0.0; num_rows * width.min(each)];
        let longest = self.layout.seq_length;
        self.with_part(data_rank, |part| {
            for first in (0..width).step_by(each) {
                let tokens = first..(first + each).min(width);
                let block = &mut block[..num_rows * tokens.len()];
                queue.download_floats(from.range(num_rows * tokens.start..num_rows * tokens.end), block)?;
                for (row, logits) in block.chunks_exact(tokens.len()).enumerate() {
                    let sequence = micro_batch.index() * shape.num_sequences + row / shape.seq_length;
                    let row = sequence * longest + row % shape.seq_length;
                    part[row * width..][tokens.clone()].copy_from_slice(logits);
                }
            }
            Ok(())
        })
    }
}
