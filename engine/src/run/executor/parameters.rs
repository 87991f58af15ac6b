//! What can be done with a rank's parameters outside a step: fill them, read a whole unit, read logits.

use std::sync::Arc;

use pipezero_models::layer::IGNORED_TARGET;
use pipezero_models::unit::ParameterEntry;
use pipezero_models::{Buffer, Queue};
use pipezero_schedule::{MicroBatch, Unit};

use super::error::Cause;
use super::rank::Rank;
use crate::run::comm::Communicator;
use crate::run::memory::{Category, TrackedBuffer};
use crate::run::shard::Weights;

/// Elements of a parameter that are made or read on the host before they go to the rank's memory: 16 MiB.
const ELEMENTS_AT_ONCE: usize = 1 << 22;

impl Rank {
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
            let held = store.held();
            for entry in self.plan.unit(id).unit.entries() {
                let start = entry.range.start.max(held.start);
                let end = entry.range.end.min(held.end);
                for start in (start..end).step_by(ELEMENTS_AT_ONCE) {
                    let piece = start..end.min(start + ELEMENTS_AT_ONCE);
                    let first = start - entry.range.start;
                    store.fill(&*self.queue, piece, |values| fill(entry, first, values))?;
                }
            }
        }
        Ok(())
    }

    /// A unit's whole flat parameters in f32, from data rank 0 of the ranks that hold it; the others help and return
    /// nothing. Where there is a master copy, it is what is returned.
    pub(crate) fn whole_unit(&mut self, unit: Unit) -> Result<Option<Vec<f32>>, Cause> {
        let Some(store) = self.stores.get(&unit) else { return Ok(None) };
        let padded_len = store.layout.padded_len();
        let source = store.master.as_ref().unwrap_or_else(|| store.parameters());
        if source.len() == padded_len {
            return (self.data_rank == 0).then(|| to_f32(&*self.queue, source, padded_len)).transpose();
        }
        let element_type = source.element_type();
        let place = self.gather_buffers.iter().position(|buffer| {
            buffer.get().element_type() == element_type && buffer.get().len() >= padded_len
        });
        // Between steps every gather buffer is free, but a master copy is wider than they are.
        let mut buffer = match place {
            Some(place) => self.gather_buffers[place].lend(),
            None => TrackedBuffer::zeros_of(padded_len, element_type, Category::Gathered, &Arc::default())?,
        };
        let own = store.layout.shard(self.data_rank);
        let own = own.start..own.start + source.len();
        self.queue.copy(source.view(), buffer.view_mut().range(own));
        let buffer = self.comm.start_all_gather(&self.groups.data, buffer, 0..padded_len)?.wait()?;
        let whole = (self.data_rank == 0).then(|| to_f32(&*self.queue, &buffer, padded_len)).transpose();
        if let Some(place) = place {
            self.gather_buffers[place].give_back(buffer);
        }
        whole
    }

    /// The logits `[V]` after `tokens`, from the rank that runs the head at data rank 0; the others help and return
    /// nothing. The tokens are the first sequence of the only micro-batch that matters.
    pub(crate) fn logits(&mut self, tokens: &[u32]) -> Result<Option<Vec<f32>>, Cause> {
        self.recorder.begin(false);
        let is_reader = self.plan.reads_tokens(self.pipeline_rank);
        let plan = Arc::clone(&self.plan);
        for micro_batch in (0..plan.evaluation().num_micro_batches()).filter(|_| is_reader) {
            self.tokens.set(MicroBatch(micro_batch), &*self.queue, |batch| {
                batch.inputs.fill(0);
                batch.inputs[..tokens.len()].copy_from_slice(tokens);
                batch.targets.fill(IGNORED_TARGET);
                Ok::<(), Cause>(())
            })?;
        }
        self.run_row(plan.evaluation(), None)?;
        let Some(head) = plan.head_of(self.pipeline_rank) else { return Ok(None) };
        if self.data_rank > 0 {
            return Ok(None);
        }
        let vocab_size = plan.vocab_size();
        let row = (tokens.len() - 1) * vocab_size;
        let last = MicroBatch(plan.evaluation().num_micro_batches() - 1);
        let planned = plan.unit(head);
        let slot = plan.evaluation().slot(planned.stage, last);
        let saved = &self.activations.slot_mut(planned.stage, slot).saved[&head];
        let mut logits = Buffer::zeros(vocab_size)?;
        let (shape, row) = (plan.micro_batch_shape(), row..row + vocab_size);
        planned.unit.copy_last_saved(&*self.queue, shape, saved, row, logits.view_mut());
        let mut values = vec![0.0; vocab_size];
        self.queue.download_floats(logits.view(), &mut values);
        Ok(Some(values))
    }
}

/// The first `len` elements, widened.
fn to_f32(queue: &dyn Queue, buffer: &Buffer, len: usize) -> Result<Vec<f32>, Cause> {
    let mut wide = Buffer::zeros(len)?;
    queue.copy(buffer.view().range(0..len), wide.view_mut());
    let mut values = vec![0.0; len];
    queue.download_floats(wide.view(), &mut values);
    Ok(values)
}
