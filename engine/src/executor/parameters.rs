//! What can be done with a rank's parameters outside a step: fill them, read a whole unit, read logits.

use pipezero_models::layer::IGNORED_TARGET;
use pipezero_models::unit::ParameterEntry;
use pipezero_schedule::Unit;

use super::error::Cause;
use super::rank::{Rank, StepInputs};
use crate::comm::{Communicator, Pending};
use crate::shard::Weights;

impl<C: Communicator> Rank<C> {
    /// Fills the parameters that this rank holds: `fill` is given each parameter, the first of its elements that lie
    /// here, and where they go.
    pub(crate) fn fill_parameters(
        &mut self,
        mut fill: impl FnMut(&ParameterEntry, usize, &mut [f32]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        for (&id, store) in &mut self.stores {
            if matches!(store.weights, Weights::Tied) {
                continue;
            }
            let held = match store.weights {
                Weights::Sharded(_) => store.owned.clone(),
                Weights::Replicated(_) | Weights::Tied => 0..store.layout.padded_len(),
            };
            let entries = self.plan.unit(id).unit.entries();
            store.parameters_mut().write(|values| {
                for entry in entries {
                    let start = entry.range.start.max(held.start);
                    let end = entry.range.end.min(held.end);
                    if start < end {
                        let here = start - held.start..end - held.start;
                        fill(entry, start - entry.range.start, &mut values[here])?;
                    }
                }
                Ok::<_, Cause>(())
            })?;
        }
        Ok(())
    }

    /// A unit's whole flat parameters, from data rank 0 of the ranks that hold it; the others help and return nothing.
    pub(crate) fn whole_unit(&mut self, unit: Unit) -> Result<Option<Vec<f32>>, Cause> {
        let Some(store) = self.stores.get(&unit) else { return Ok(None) };
        let sharded = matches!(store.weights, Weights::Sharded(_));
        let padded_len = store.layout.padded_len();
        let shard = store.layout.shard(self.data_rank);
        if !sharded {
            return Ok((self.data_rank == 0).then(|| store.parameters().read().to_vec()));
        }
        let mut buffer = self.gather_buffers.pop().expect("between steps every gather buffer is free");
        let own = self.stores[&unit].parameters().read();
        buffer.write(|values| values[shard].copy_from_slice(&own));
        drop(own);
        let buffer = self.comm.start_all_gather(&self.groups.data, buffer, 0..padded_len)?.wait()?;
        let whole = (self.data_rank == 0).then(|| buffer.read()[..padded_len].to_vec());
        self.gather_buffers.push(buffer);
        Ok(whole)
    }

    /// The logits `[V]` after `tokens`, from the rank that runs the head at data rank 0; the others help and return
    /// nothing. The tokens are the first sequence of the only micro-batch that matters.
    pub(crate) fn logits(&mut self, tokens: &[u32]) -> Result<Option<Vec<f32>>, Cause> {
        for batch in &mut self.tokens {
            batch.inputs.fill(0);
            batch.inputs[..tokens.len()].copy_from_slice(tokens);
            batch.targets.fill(IGNORED_TARGET);
        }
        let plan = std::sync::Arc::clone(&self.plan);
        self.run_row(plan.evaluation(), StepInputs { step: 0, learning_rate: 0.0 })?;
        let Some(head) = plan.head_of(self.pipeline_rank) else { return Ok(None) };
        if self.data_rank > 0 {
            return Ok(None);
        }
        let vocab_size = plan.vocab_size();
        let row = (tokens.len() - 1) * vocab_size;
        let last = pipezero_schedule::MicroBatch(plan.evaluation().num_micro_batches() - 1);
        let planned = plan.unit(head);
        let slot = plan.evaluation().slot(planned.stage, last);
        let saved = &self.activations.slot_mut(planned.stage, slot).saved[&head];
        let logits = planned.unit.last_saved(plan.micro_batch_shape(), saved, row..row + vocab_size);
        Ok(Some(logits))
    }
}
