//! The logits that follow texts.

use std::sync::Arc;

use pipezero_comm::Communicator;
use pipezero_comm::memory::Category;
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_schedule::MicroBatch;

use super::asked_logits::AskedLogits;
use super::error::Cause;
use super::rank::Rank;
use super::to_rank_zero::ToRankZero;

impl Rank {
    /// The logits `[prompts, V]` after each prompt, which rank 0 gets; the others help and return nothing. A prompt is the first sequence of
    /// a micro-batch of its own.
    pub(crate) fn logits(&mut self, prompts: &[Vec<u32>]) -> Result<Option<Vec<f32>>, Cause> {
        self.recorder.begin(false);
        let is_reader = self.plan.tokens_read(self.pipeline_rank).is_any();
        let plan = Arc::clone(&self.plan);
        self.shapes.reset();
        for micro_batch in (0..plan.evaluation().num_micro_batches()).filter(|_| is_reader) {
            let prompt = prompts.get(micro_batch as usize).map_or(&[][..], |prompt| prompt);
            let id = MicroBatch(micro_batch);
            self.tokens.set(id, self.shapes.of(id), &*self.queue, |batch| {
                batch.inputs.fill(0);
                batch.inputs[..prompt.len()].copy_from_slice(prompt);
                batch.targets.fill(IGNORED_TARGET);
                batch.clear_loss_inputs();
                Ok::<(), Cause>(())
            })?;
        }
        let (num_logits, rank) = (plan.num_logits(), self.comm.rank());
        let len = prompts.len() * num_logits;
        let holder = self.first_data_rank(plan.unit(plan.head()).stage);
        if rank == holder {
            let logits = self.scratch.zeros(len, Category::Communication)?;
            self.asked_logits = Some(AskedLogits::of_prompts(prompts, logits, num_logits));
        }
        let run = self.run_row(plan.evaluation(), None);
        let asked = self.asked_logits.take();
        run?;
        if rank != holder && rank != 0 {
            return Ok(None);
        }
        let from = asked.as_ref().map(|asked| asked.view());
        ToRankZero { holder, from, len, memory: &self.scratch }
            .send_to_rank_zero(&mut self.comm, &*self.queue)
    }
}
