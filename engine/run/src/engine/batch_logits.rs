//! All logits of a batch: what another engine learns from.

use std::ops::Range;
use std::sync::Arc;

use pipezero_plan::Plan;

use super::Engine;
use super::command::Command;
use super::error::EngineError;
use super::kind::EngineKind;
use crate::data::BatchSource;
use crate::executor::BatchLogits;

/// Logits that processes send each other in a message: copies of so many are held beside them.
const LOGITS_AT_ONCE: usize = 1 << 20;

impl<K: EngineKind> Engine<K> {
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
        self.own_batch_logits(source, batch, logits)?;
        if self.ranks.are_all() {
            return Ok(());
        }
        let (plan, local) = (Arc::clone(&self.plan), self.ranks.local());
        share_logits(&plan, &local, logits, |own| {
            self.ranks.together(|world| {
                let gathered = world.gather(own)?.concat();
                world.broadcast(gathered)
            })
        })
    }

    /// The same of the local ranks alone.
    pub fn own_batch_logits(
        &mut self,
        source: &Arc<dyn BatchSource>,
        batch: u64,
        logits: &Arc<BatchLogits>,
    ) -> Result<(), EngineError> {
        if !logits.is_for(&self.plan) {
            return Err(EngineError::OtherBatches);
        }
        let command = Command::BatchLogits { source: Arc::clone(source), batch, to: Arc::clone(logits) };
        self.evaluated(&command, source, batch).map(drop)
    }

    /// The ranks of this process.
    pub fn local_ranks(&self) -> Range<usize> {
        self.ranks.local()
    }
}

/// Gives every process the logits that a plan's ranks have computed in others; `local` are those of this process. `exchange` gives each process the bytes
/// of the one that has some.
pub fn share_logits<E>(
    plan: &Plan,
    local: &Range<usize>,
    logits: &BatchLogits,
    mut exchange: impl FnMut(Vec<u8>) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    let (grid, head) = (plan.grid(), plan.unit(plan.head()).stage);
    let head = plan.pipeline_rank_of(head).index();
    for data_rank in 0..grid.data_degree {
        let is_own = local.contains(&grid.rank(head, data_rank));
        let len = logits.with_part(data_rank, |part| part.len());
        for start in (0..len).step_by(LOGITS_AT_ONCE) {
            let piece = start..len.min(start + LOGITS_AT_ONCE);
            let bytes_of =
                |part: &mut [f32]| part[piece.clone()].iter().flat_map(|logit| logit.to_le_bytes()).collect();
            let own: Vec<u8> = if is_own { logits.with_part(data_rank, bytes_of) } else { Vec::new() };
            let all = exchange(own)?;
            logits.with_part(data_rank, |part| {
                for (logit, &bytes) in part[piece.clone()].iter_mut().zip(all.as_chunks().0) {
                    *logit = f32::from_le_bytes(bytes);
                }
            });
        }
    }
    Ok(())
}
