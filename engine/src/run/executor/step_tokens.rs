//! The tokens of a step, on the ranks that read them: allocated once and charged to the rank's ledger.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use pipezero_models::layer::MicroBatchShape;
use pipezero_schedule::MicroBatch;

use crate::run::data::TokenBatch;
use crate::run::memory::{Category, Charge, Ledger};

/// Micro-batches to be filled by the source; empty ones on a rank that reads none.
#[derive(Debug)]
pub(crate) struct StepTokens {
    micro_batches: Vec<TokenBatch>,
    /// Held for as long as the tokens are.
    _charge: Charge,
}

impl StepTokens {
    /// Tokens of zero, for every micro-batch of a step.
    pub(super) fn zeros(num_micro_batches: usize, shape: MicroBatchShape, ledger: &Arc<Ledger>) -> Self {
        let zeros = |_| TokenBatch::zeros(shape.num_sequences, shape.seq_length);
        let micro_batches: Vec<TokenBatch> = (0..num_micro_batches).map(zeros).collect();
        let num_bytes = micro_batches.iter().map(TokenBatch::num_bytes).sum();
        let charge = Charge::new(Category::Activations, num_bytes, ledger);
        Self { micro_batches, _charge: charge }
    }

    /// Every micro-batch, for writing.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TokenBatch> {
        self.micro_batches.iter_mut()
    }
}

impl Index<MicroBatch> for StepTokens {
    type Output = TokenBatch;

    fn index(&self, micro_batch: MicroBatch) -> &TokenBatch {
        &self.micro_batches[micro_batch.index()]
    }
}

impl IndexMut<MicroBatch> for StepTokens {
    fn index_mut(&mut self, micro_batch: MicroBatch) -> &mut TokenBatch {
        &mut self.micro_batches[micro_batch.index()]
    }
}
