//! The logits that follow a text.

use std::sync::Arc;

use pipezero_models::layer::IGNORED_TARGET;
use pipezero_schedule::MicroBatch;

use super::error::Cause;
use super::handed::Handed;
use super::rank::Rank;
use crate::run::comm::Communicator;
use crate::run::memory::Category;

impl Rank {
    /// The logits `[V]` after `tokens`, which rank 0 gets; the others help and return nothing. The tokens are the first sequence of the
    /// only micro-batch that matters.
    pub(crate) fn logits(&mut self, tokens: &[u32]) -> Result<Option<Vec<f32>>, Cause> {
        self.recorder.begin(false);
        let is_reader = self.plan.tokens_read(self.pipeline_rank).is_any();
        let plan = Arc::clone(&self.plan);
        for micro_batch in (0..plan.evaluation().num_micro_batches()).filter(|_| is_reader) {
            self.tokens.set(MicroBatch(micro_batch), &*self.queue, |batch| {
                batch.inputs.fill(0);
                batch.inputs[..tokens.len()].copy_from_slice(tokens);
                batch.targets.fill(IGNORED_TARGET);
                Ok::<(), Cause>(())
            })?;
        }
        let (len, rank) = (plan.vocab_size(), self.comm.rank());
        let holder = self.first_data_rank(plan.unit(plan.head()).stage);
        if rank == holder {
            let logits = self.between.zeros(len, Category::Communication)?;
            self.row_logits = Some((tokens.len() - 1, logits));
        }
        let run = self.run_row(plan.evaluation(), None);
        let logits = self.row_logits.take();
        run?;
        if rank != holder && rank != 0 {
            return Ok(None);
        }
        let from = logits.as_ref().map(|(_, logits)| logits.view());
        Handed { holder, from, len, memory: &self.between }.hand_over(&mut self.comm, &*self.queue)
    }
}
