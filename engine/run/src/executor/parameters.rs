//! What can be done with a rank's parameters outside a step: fill them, and hand them to rank 0.

use std::sync::Arc;

use pipezero_comm::Communicator;
use pipezero_comm::memory::{Lendable, TrackedBuffer};
use pipezero_models::init;
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::unit::ParameterEntry;
use pipezero_models::{Buffer, ElementType};
use pipezero_plan::{MAX_GATHERED_PARTS, Plan};
use pipezero_schedule::{Stage, Unit};

use super::error::Cause;
use super::rank::Rank;
use super::read_weights::ReadWeights;
use super::scratch::ELEMENTS_AT_ONCE;
use super::to_rank_zero::ToRankZero;
use crate::shard::{PartStore, Weights};
use crate::unusable_value::{PlaceInFile, UnusableValue, first_beyond};

impl Rank {
    /// Fills the parameters that this rank holds: `fill` is given each parameter, the first of its elements that lie
    /// here, and where they go.
    pub(crate) fn fill_parameters(
        &mut self,
        mut fill: impl FnMut(&ParameterEntry, usize, &mut [f32]) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        for (&id, store) in &mut self.stores {
            for (index, part) in store.parts.iter_mut().enumerate() {
                if matches!(part.weights, Weights::Tied) {
                    continue;
                }
                let held = part.held();
                for entry in self.plan.unit(id).unit.entries_of(index) {
                    let start = entry.range.start.max(held.start);
                    let end = entry.range.end.min(held.end);
                    for start in (start..end).step_by(ELEMENTS_AT_ONCE) {
                        let piece = start..end.min(start + ELEMENTS_AT_ONCE);
                        let first = start - entry.range.start;
                        part.fill(&*self.queue, &self.scratch, piece, |values| fill(entry, first, values))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fills the parameters that this rank holds with what `read` finds in files, as [`Rank::fill_parameters`] does, and returns what that
    /// took; or the first value with which no run can begin, where `place` says. What the rank holds is of no use then. `read` is given each
    /// parameter, the first of its elements that are wanted, and where they go, and returns how many bytes of files it has read. A parameter of
    /// which `is_read` does not hold is drawn.
    pub(crate) fn read_values(
        &mut self,
        is_read: impl Fn(&str) -> bool,
        mut read: impl FnMut(&ParameterSpec, usize, &mut [f32]) -> Result<u64, Cause>,
        place: impl Fn(&ParameterSpec, usize) -> PlaceInFile,
    ) -> Result<Result<ReadWeights, UnusableValue>, Cause> {
        let plan = Arc::clone(&self.plan);
        let stored = plan.element_type();
        let seed = plan.run().seed;
        let mut found = None;
        let parts = self.stores.values().flat_map(|store| &store.parts);
        let mut counted = ReadWeights::by_rank_with(parts);
        self.fill_parameters(|ParameterEntry { spec, .. }, first, values| {
            if !is_read(&spec.name) {
                init::fill(spec, seed, first, values);
                return Ok(());
            }
            if found.is_some() {
                return Ok(());
            }
            let first = spec.first_element() + first;
            counted.count(values.len(), read(spec, first, values)?);
            found = first_beyond(values, stored.overflow()).map(|at| {
                let (order, element) = (parameter_order(&plan, &spec.name), first + at);
                UnusableValue::new((order, element), place(spec, element), values[at], stored)
            });
            Ok(())
        })?;
        Ok(found.map_or(Ok(counted), Err))
    }

    /// Sends a unit's parameters to rank 0 in f32, in the order of declaration and piece by piece. On rank 0, `take` is given neighbours in
    /// one part, where in its flat buffer the piece begins, and the piece. The ranks that hold the unit help, the others do nothing. If
    /// there is a master copy, it is sent.
    pub(crate) fn collect_unit(
        &mut self,
        unit: Unit,
        mut take: impl FnMut(&[ParameterEntry], usize, &[f32]),
    ) -> Result<(), Cause> {
        let plan = Arc::clone(&self.plan);
        let planned = plan.unit(unit);
        let holder = self.first_data_rank(planned.stage);
        let parts = 0..planned.parts.len();
        let gathered: Vec<Option<GatheredWhole>> =
            parts.map(|part| self.gather_whole(unit, part)).collect::<Result<_, _>>()?;
        let rank = self.comm.rank();
        let is_taking_part = rank == holder || rank == 0;
        let neighbours = planned.unit.entries().chunk_by(|one, next| one.part == next.part);
        for entries in neighbours.filter(|_| is_taking_part) {
            let ([first, ..], [.., last]) = (entries, entries) else { continue };
            let whole = match &gathered[first.part] {
                Some(gathered) => Some(gathered.buffer.view()),
                None => self.stores.get(&unit).map(|store| saved(&store.parts[first.part]).view()),
            };
            let whole = whole.filter(|_| rank == holder);
            let (start, end) = (first.range.start, last.range.end);
            for first in (start..end).step_by(ELEMENTS_AT_ONCE) {
                let piece = first..end.min(first + ELEMENTS_AT_ONCE);
                let from = whole.map(|whole| whole.range(piece.clone()));
                let elements = ToRankZero { holder, from, len: piece.len(), memory: &self.scratch };
                if let Some(values) = elements.send_to_rank_zero(&mut self.comm, &*self.queue)? {
                    take(entries, first, &values);
                }
            }
        }
        for GatheredWhole { buffer, place } in gathered.into_iter().flatten() {
            self.buffer_at(place).give_back(buffer);
        }
        // Wait here on every rank that took part: a later failure would go unreported while the rank waits for its next command.
        self.comm.finish()?;
        Ok(())
    }

    /// Gathers what is saved of a part of a unit, on the ranks that hold a shard of it.
    fn gather_whole(&mut self, unit: Unit, part: usize) -> Result<Option<GatheredWhole>, Cause> {
        let Some(store) = self.stores.get(&unit) else { return Ok(None) };
        let own = &store.parts[part];
        let (source, padded_len) = (saved(own), own.layout.padded_len());
        if source.len() == padded_len {
            return Ok(None);
        }
        let place = self.idle_buffer((unit, part), source.element_type(), padded_len);
        let mut buffer = self.buffer_at(place).lend();
        let store = &self.stores[&unit].parts[part];
        let source = saved(store);
        let own = store.layout.shard(self.data_rank);
        let own = own.start..own.start + source.len();
        self.queue.copy(source.view(), buffer.view_mut().range(own));
        let buffer = self.comm.start_all_gather(&self.groups.data, buffer, 0..padded_len)?.wait()?;
        Ok(Some(GatheredWhole { buffer, place }))
    }

    /// Where a unit can be gathered between steps. Every buffer is free then; a master copy is wider than gather buffers, so it goes where
    /// its gradient is computed or accumulated, which the next step overwrites.
    /// Each part of a unit finds another.
    fn idle_buffer(&self, (unit, part): (Unit, usize), element_type: ElementType, len: usize) -> IdleBuffer {
        let fits = |buffer: &Lendable<TrackedBuffer>| {
            !buffer.is_lent() && buffer.get().element_type() == element_type && buffer.get().len() >= len
        };
        // The smallest, so that the larger one is left for the larger part.
        let places = (0..self.gather_buffers.len())
            .flat_map(|index| (0..MAX_GATHERED_PARTS).map(move |place| (index, place)));
        let gather = places
            .filter(|&(index, place)| fits(&self.gather_buffers[index][place]))
            .min_by_key(|&(index, place)| self.gather_buffers[index][place].get().len())
            .map(|(buffer, place)| IdleBuffer::Gathered { buffer, place });
        let gradient = || {
            let index = self.gradient_buffers.iter().position(|parts| parts.get(part).is_some_and(fits))?;
            Some(IdleBuffer::UnreducedGradient(index, part))
        };
        let sum = || {
            let own = &self.stores[&unit].parts[part].gradient;
            fits(own).then_some(IdleBuffer::GradientSum(unit, part))
        };
        let idle = gather.or_else(gradient).or_else(sum);
        idle.expect(
            "a sharded unit has a gather buffer, and one with a master copy a buffer for its gradients",
        )
    }

    fn buffer_at(&mut self, place: IdleBuffer) -> &mut Lendable<TrackedBuffer> {
        match place {
            IdleBuffer::Gathered { buffer, place } => &mut self.gather_buffers[buffer][place],
            IdleBuffer::UnreducedGradient(index, part) => &mut self.gradient_buffers[index][part],
            IdleBuffer::GradientSum(unit, part) => &mut self.store_mut(unit).parts[part].gradient,
        }
    }

    /// The world rank that runs a stage at data rank 0.
    pub(super) fn first_data_rank(&self, stage: Stage) -> usize {
        self.plan.grid().rank(self.plan.pipeline_rank_of(stage).index(), 0)
    }
}

/// The parameters of a part, gathered outside a program.
struct GatheredWhole {
    buffer: TrackedBuffer,
    /// Whose buffer it is.
    place: IdleBuffer,
}

/// A buffer of a rank that nothing uses between steps.
#[derive(Clone, Copy, Debug)]
enum IdleBuffer {
    /// One of its gather buffers, in the place of one of the parts that are gathered.
    Gathered { buffer: usize, place: usize },
    /// One of its buffers for unreduced gradients, for this part.
    UnreducedGradient(usize, usize),
    /// Where gradients of a part of a unit accumulate.
    GradientSum(Unit, usize),
}

/// A parameter's place among those of the model.
pub(super) fn parameter_order(plan: &Plan, name: &str) -> usize {
    let mut entries = plan.owned_units().flat_map(|(_, unit)| unit.unit.entries());
    entries.position(|entry| entry.spec.name == name).unwrap_or_default()
}

/// What of a part is saved: its master copy if it has one.
fn saved(store: &PartStore) -> &Buffer {
    store.master.as_ref().unwrap_or_else(|| store.parameters())
}
