//! All logits of a batch: what another engine learns from.

use std::sync::Arc;

use super::Engine;
use super::command::Command;
use super::error::EngineError;
use crate::run::data::BatchSource;
use crate::run::executor::BatchLogits;

/// Logits that processes send each other in a message: copies of so many are held beside them.
const LOGITS_AT_ONCE: usize = 1 << 20;

impl Engine {
    /// Computes the logits of batch `batch` (from 1) of `source`, without gradients, and writes them to `logits`, in every process. They are the
    /// same to the bit on every grid of equal micro-batches, and so is the place of each sequence's. A rank that has the head holds those of a
    /// micro-batch meanwhile.
    ///
    /// # Errors
    /// As [`Engine::eval_batch`]; [`EngineError::OtherBatches`] where `logits` were made for other batches.
    pub fn batch_logits(
        &mut self,
        source: &Arc<dyn BatchSource>,
        batch: u64,
        logits: &Arc<BatchLogits>,
    ) -> Result<(), EngineError> {
        if !logits.is_for(&self.plan) {
            return Err(EngineError::OtherBatches);
        }
        let (source, to) = (Arc::clone(source), Arc::clone(logits));
        self.evaluated(&Command::BatchLogits { source, batch, to }, batch)?;
        self.share_logits(logits)
    }

    /// Gives every process the logits that other processes have.
    fn share_logits(&mut self, logits: &BatchLogits) -> Result<(), EngineError> {
        if self.ranks.are_all() {
            return Ok(());
        }
        let (grid, head) = (self.plan.grid(), self.plan.unit(self.plan.head()).stage);
        let head = self.plan.pipeline_rank_of(head).index();
        for data_rank in 0..grid.data_degree {
            let is_own = self.ranks.local().contains(&grid.rank(head, data_rank));
            let len = logits.with_part(data_rank, |part| part.len());
            for start in (0..len).step_by(LOGITS_AT_ONCE) {
                let piece = start..len.min(start + LOGITS_AT_ONCE);
                let bytes_of = |part: &mut [f32]| {
                    part[piece.clone()].iter().flat_map(|logit| logit.to_le_bytes()).collect()
                };
                let own: Vec<u8> = if is_own { logits.with_part(data_rank, bytes_of) } else { Vec::new() };
                let all = self.ranks.together(|world| {
                    let gathered = world.gather(own)?.concat();
                    world.broadcast(gathered)
                })?;
                logits.with_part(data_rank, |part| {
                    for (logit, &bytes) in part[piece.clone()].iter_mut().zip(all.as_chunks().0) {
                        *logit = f32::from_le_bytes(bytes);
                    }
                });
            }
        }
        Ok(())
    }
}
