//! All logits of a batch, computed by the program of an evaluation.

use std::sync::Arc;

use pipezero_comm::Communicator;
use pipezero_comm::memory::Category;
use pipezero_schedule::{MicroBatch, Unit};

use super::asked_logits::AskedLogits;
use super::batch_logits::BatchLogits;
use super::error::Cause;
use super::rank::Rank;
use super::step::RankOutcome;
use crate::data::BatchSource;

impl Rank {
    /// Computes the logits of a batch, of which a rank that has the head writes those of its data rank. The rest is an evaluation.
    pub(crate) fn batch_logits(
        &mut self,
        source: &dyn BatchSource,
        batch: u64,
        to: Arc<BatchLogits>,
    ) -> Result<RankOutcome, Cause> {
        let (head, num_logits) = (self.plan.unit(self.plan.head()).stage, self.plan.num_logits());
        if self.plan.pipeline_rank_of(head) == self.pipeline_rank {
            let len = self.plan.micro_batch_shape().num_tokens() * num_logits;
            let logits = self.scratch.zeros(len, Category::Communication)?;
            self.asked_logits = Some(AskedLogits::OfBatch { logits, num_logits, to });
        }
        let outcome = self.evaluate(source, batch);
        self.asked_logits = None;
        outcome
    }

    /// After the last forward of a micro-batch: hands its logits out, if those of a batch are asked for.
    pub(super) fn hand_out_logits(&mut self, unit: Unit, micro_batch: MicroBatch) -> Result<(), Cause> {
        let Some(AskedLogits::OfBatch { logits, to, .. }) = &self.asked_logits else { return Ok(()) };
        if unit != self.plan.head() {
            return Ok(());
        }
        // A download would wait for ever for what a peer that has failed does not send.
        self.comm.finish()?;
        let at = (micro_batch, self.shapes.of(micro_batch));
        Ok(to.download(&*self.queue, logits.view(), self.data_rank, at)?)
    }
}
