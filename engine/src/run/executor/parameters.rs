//! What can be done with a rank's parameters outside a step: fill them, and hand them to rank 0.

use pipezero_models::unit::ParameterEntry;
use pipezero_models::{Buffer, ElementType};
use pipezero_schedule::{Stage, Unit};

use super::between_steps::ELEMENTS_AT_ONCE;
use super::error::Cause;
use super::handed::Handed;
use super::rank::Rank;
use crate::run::comm::Communicator;
use crate::run::memory::{Lendable, TrackedBuffer};
use crate::run::shard::{UnitStore, Weights};

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
                    store.fill(&*self.queue, &self.between, piece, |values| fill(entry, first, values))?;
                }
            }
        }
        Ok(())
    }

    /// Hands a unit's flat parameters to rank 0 in f32, piece by piece: there `take` is given the first element of each piece, and the
    /// piece. The ranks that hold the unit help, the others do nothing. Where there is a master copy, it is what is handed over.
    pub(crate) fn collect_unit(
        &mut self,
        unit: Unit,
        mut take: impl FnMut(usize, &[f32]),
    ) -> Result<(), Cause> {
        let planned = self.plan.unit(unit);
        let (holder, len) = (self.first_data_rank(planned.stage), planned.unit.num_elements());
        let gathered = self.gather_whole(unit)?;
        let rank = self.comm.rank();
        let whole = match &gathered {
            Some(gathered) => Some(gathered.buffer.view()),
            None => self.stores.get(&unit).map(|store| saved(store).view()),
        };
        let whole = whole.filter(|_| rank == holder);
        let is_taking_part = rank == holder || rank == 0;
        for first in (0..len).step_by(ELEMENTS_AT_ONCE).filter(|_| is_taking_part) {
            let piece = first..len.min(first + ELEMENTS_AT_ONCE);
            let from = whole.map(|whole| whole.range(piece.clone()));
            let handed = Handed { holder, from, len: piece.len(), memory: &self.between };
            if let Some(values) = handed.hand_over(&mut self.comm, &*self.queue)? {
                take(first, &values);
            }
        }
        if let Some(GatheredWhole { buffer, place }) = gathered {
            self.buffer_at(place).give_back(buffer);
        }
        // Also of a rank that has gathered alone. Nobody would notice what fails while it waits for its next command.
        self.comm.finish()?;
        Ok(())
    }

    /// Gathers what is saved of a unit, on the ranks that hold a shard of it.
    fn gather_whole(&mut self, unit: Unit) -> Result<Option<GatheredWhole>, Cause> {
        let Some(store) = self.stores.get(&unit) else { return Ok(None) };
        let (source, padded_len) = (saved(store), store.layout.padded_len());
        if source.len() == padded_len {
            return Ok(None);
        }
        let place = self.idle_buffer(unit, source.element_type(), padded_len);
        let mut buffer = self.buffer_at(place).lend();
        let store = &self.stores[&unit];
        let source = saved(store);
        let own = store.layout.shard(self.data_rank);
        let own = own.start..own.start + source.len();
        self.queue.copy(source.view(), buffer.view_mut().range(own));
        let buffer = self.comm.start_all_gather(&self.groups.data, buffer, 0..padded_len)?.wait()?;
        Ok(Some(GatheredWhole { buffer, place }))
    }

    /// Where a unit can be gathered between steps. Every buffer is free then; a master copy is wider than gather buffers, so it goes where
    /// its gradient is computed or accumulated, which the next step overwrites.
    fn idle_buffer(&self, unit: Unit, element_type: ElementType, len: usize) -> IdleBuffer {
        let fits = |buffer: &Lendable<TrackedBuffer>| {
            buffer.get().element_type() == element_type && buffer.get().len() >= len
        };
        let gather = self.gather_buffers.iter().position(fits).map(IdleBuffer::Gathered);
        let gradient = || self.gradient_buffers.iter().position(fits).map(IdleBuffer::UnreducedGradient);
        let sum = || fits(&self.stores[&unit].gradient).then_some(IdleBuffer::GradientSum(unit));
        let idle = gather.or_else(gradient).or_else(sum);
        idle.expect(
            "a sharded unit has a gather buffer, and one with a master copy a buffer for its gradients",
        )
    }

    fn buffer_at(&mut self, place: IdleBuffer) -> &mut Lendable<TrackedBuffer> {
        match place {
            IdleBuffer::Gathered(index) => &mut self.gather_buffers[index],
            IdleBuffer::UnreducedGradient(index) => &mut self.gradient_buffers[index],
            IdleBuffer::GradientSum(unit) => &mut self.store_mut(unit).gradient,
        }
    }

    /// The world rank that runs a stage at data rank 0.
    pub(super) fn first_data_rank(&self, stage: Stage) -> usize {
        self.plan.grid().rank(self.plan.pipeline_rank_of(stage).index(), 0)
    }
}

/// A unit's parameters, gathered outside a program.
struct GatheredWhole {
    buffer: TrackedBuffer,
    /// Whose buffer it is.
    place: IdleBuffer,
}

/// A buffer of a rank that nothing uses between steps.
#[derive(Clone, Copy, Debug)]
enum IdleBuffer {
    /// One of its gather buffers.
    Gathered(usize),
    /// One of its buffers for unreduced gradients.
    UnreducedGradient(usize),
    /// Where a unit's gradients accumulate.
    GradientSum(Unit),
}

/// What of a unit is saved: its master copy if it has one.
fn saved(store: &UnitStore) -> &Buffer {
    store.master.as_ref().unwrap_or_else(|| store.parameters())
}
