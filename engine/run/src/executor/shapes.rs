//! The shape of each micro-batch of a step: that of the plan, or shorter where the source of the data says so.

use pipezero_models::layer::MicroBatchShape;
use pipezero_schedule::MicroBatch;

use crate::data::{BatchFault, BatchSource};

/// The shapes of a step's micro-batches. All pipeline ranks of a data rank have the same, without a message: each asks the source.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// What everything is allocated for.
    longest: MicroBatchShape,
    of_micro_batches: Vec<MicroBatchShape>,
}

impl Shapes {
    /// All as the plan has them.
    pub(super) fn new(longest: MicroBatchShape, num_micro_batches: usize) -> Self {
        Self { longest, of_micro_batches: vec![longest; num_micro_batches] }
    }

    pub(super) fn of(&self, micro_batch: MicroBatch) -> MicroBatchShape {
        self.of_micro_batches[micro_batch.index()]
    }

    /// All as the plan has them, again.
    pub(super) fn reset(&mut self) {
        self.of_micro_batches.fill(self.longest);
    }

    /// As the source says for a batch. A micro-batch whose length cannot be has that of the plan; the first such is returned.
    pub(super) fn set(
        &mut self,
        source: &dyn BatchSource,
        batch: u64,
        data_rank: usize,
    ) -> Result<(), (usize, BatchFault)> {
        let longest = self.longest.seq_length;
        let mut fault = Ok(());
        for (micro_batch, shape) in self.of_micro_batches.iter_mut().enumerate() {
            let seq_length = source.seq_length(batch, data_rank, micro_batch).unwrap_or(longest);
            let can_be = (1..=longest).contains(&seq_length);
            if !can_be && fault.is_ok() {
                fault = Err((micro_batch, BatchFault::SeqLength { seq_length, longest }));
            }
            shape.seq_length = if can_be { seq_length } else { longest };
        }
        fault
    }
}
