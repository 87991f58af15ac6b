//! Instructions of the other lanes: started here, ended when something waits for them.

use std::ops::Range;
use std::time::Instant;

use pipezero_schedule::{CheckedProgram, Edge, Instruction, Lane, MicroBatch, Stage, Unit};

use super::error::Cause;
use super::position::Position;
use super::rank::Rank;
use super::recorder::EventKind;
use crate::run::comm::{Channel, Communicator, Pending};
use crate::run::memory::Tagged;
use crate::run::shard::{GatheredCopy, Weights};

/// An operation under way, and what becomes of its buffer.
#[derive(Debug)]
pub(crate) struct InFlight<P> {
    /// The instruction's place in the row.
    index: usize,
    pending: P,
    landing: Landing,
}

#[derive(Clone, Copy, Debug)]
enum Landing {
    Unshard { unit: Unit, place: usize },
    Reduce { unit: Unit },
    ReduceLast { unit: Unit },
    GatherAfterStep { unit: Unit },
    SendActivation { stage: Stage, slot: usize },
    SendGradient { edge: Edge },
    Receive { edge: Edge, micro_batch: MicroBatch },
}

impl Landing {
    fn lane(self) -> Lane {
        match self {
            Self::Unshard { .. } | Self::GatherAfterStep { .. } => Lane::Gather,
            Self::Reduce { .. } | Self::ReduceLast { .. } => Lane::Reduce,
            Self::SendActivation { stage, .. } => Lane::Edge(Edge::Up(stage)),
            Self::SendGradient { edge } | Self::Receive { edge, .. } => Lane::Edge(edge),
        }
    }
}

impl<C: Communicator> Rank<C> {
    pub(super) fn unshard(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        unit: Unit,
    ) -> Result<(), Cause> {
        let layout = self.stores[&unit].layout;
        let place = program.gather_buffer(self.pipeline_rank.at(index));
        let mut buffer = self.gather_buffers[place].lend();
        let owner = &self.stores[&self.plan.weights_owner(unit)];
        let Weights::Sharded(shard) = &owner.weights else { unreachable!("only sharded units are gathered") };
        buffer.copy_from(layout.shard(self.data_rank).start, shard, 0..layout.shard_len());
        let pending = self.comm.start_all_gather(&self.groups.data, buffer, 0..layout.padded_len())?;
        self.fly(index, pending, Landing::Unshard { unit, place });
        Ok(())
    }

    pub(super) fn reshard(&mut self, unit: Unit) {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let copy = store.gathered.pop_front().expect("a checked program reshards what is gathered");
        self.gather_buffers[copy.place].give_back(copy.buffer);
    }

    pub(super) fn reduce(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let buffer = store.fresh_gradient.take().expect("a checked program reduces after each backward");
        let range = 0..store.layout.padded_len();
        let pending = self.comm.start_reduce_scatter(&self.groups.data, buffer, range)?;
        self.fly(index, pending, Landing::Reduce { unit });
        Ok(())
    }

    pub(super) fn reduce_last(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let (buffer, range) = (store.gradient.lend(), 0..store.layout.padded_len());
        let pending = self.comm.start_reduce_scatter(&self.groups.data, buffer, range)?;
        self.fly(index, pending, Landing::ReduceLast { unit });
        Ok(())
    }

    pub(super) fn all_reduce(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let (buffer, range) = (store.gradient.lend(), 0..store.layout.padded_len());
        let pending = self.comm.start_all_reduce(&self.groups.data, Channel::Reduce, buffer, range)?;
        self.fly(index, pending, Landing::ReduceLast { unit });
        Ok(())
    }

    pub(super) fn gather_after_step(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let range = 0..store.layout.padded_len();
        let Weights::Replicated(whole) = &mut store.weights else {
            unreachable!("only units that are whole during the step are gathered after it")
        };
        let pending = self.comm.start_all_gather(&self.groups.data, whole.lend(), range)?;
        self.fly(index, pending, Landing::GatherAfterStep { unit });
        Ok(())
    }

    pub(super) fn send(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        edge: Edge,
        micro_batch: MicroBatch,
    ) -> Result<(), Cause> {
        let (buffer, landing) = match edge {
            Edge::Up(stage) => {
                let slot = program.slot(stage, micro_batch);
                let buffer = self.activations.slot_mut(stage, slot).output.lend();
                (buffer, Landing::SendActivation { stage, slot })
            }
            Edge::Down(_) => (self.edges.take_held(edge, micro_batch), Landing::SendGradient { edge }),
        };
        let to = self.peer(edge.receiver());
        let pending = self.comm.start_send(to, edge.index() as u32, buffer)?;
        self.fly(index, pending, landing);
        Ok(())
    }

    pub(super) fn receive(&mut self, index: usize, edge: Edge, micro_batch: MicroBatch) -> Result<(), Cause> {
        let from = self.peer(edge.sender());
        let buffer = self.edges.take_free(edge);
        let pending = self.comm.start_receive(from, edge.index() as u32, buffer)?;
        self.fly(index, pending, Landing::Receive { edge, micro_batch });
        Ok(())
    }

    /// Waits for the instruction at `index` of the row, if it is still under way, and for those issued to its lane
    /// before it: a lane is in order, so the dependency graph names only the last of a lane.
    /// `here` says where the row is, given what it waits for.
    pub(super) fn complete(
        &mut self,
        row: &[Instruction],
        lane: Lane,
        index: usize,
        here: impl Fn(Instruction) -> Position,
    ) -> Result<(), Cause> {
        while let Some(first) =
            self.in_flight.get_mut(&lane).and_then(|queue| queue.pop_front_if(|first| first.index <= index))
        {
            self.positions.set(self.comm.rank(), here(row[first.index]));
            self.recorder.record(first.index, EventKind::Awaited);
            let start = Instant::now();
            let buffer = first.pending.wait()?;
            self.waited.add(lane, start.elapsed());
            self.recorder.record(first.index, EventKind::Arrived);
            self.land(first.landing, buffer);
            self.recorder.record(first.index, EventKind::Ended);
        }
        Ok(())
    }

    /// Waits for everything that is under way.
    pub(super) fn complete_all(&mut self, row: &[Instruction], step: u64) -> Result<(), Cause> {
        let lanes: Vec<Lane> = self.in_flight.keys().copied().collect();
        let here = |waits_for| Position::Draining { step, waits_for };
        lanes.into_iter().try_for_each(|lane| self.complete(row, lane, usize::MAX, here))
    }

    fn fly(&mut self, index: usize, pending: C::Pending, landing: Landing) {
        self.in_flight.entry(landing.lane()).or_default().push_back(InFlight { index, pending, landing });
    }

    fn land(&mut self, landing: Landing, mut buffer: Tagged) {
        match landing {
            Landing::Unshard { unit, place } => {
                self.store_mut(unit).gathered.push_back(GatheredCopy { buffer, place });
            }
            Landing::Reduce { unit } => {
                let shard = self.stores[&unit].layout.shard(self.data_rank);
                add_reduced(self.store_mut(unit).gradient.get_mut(), &mut buffer, shard);
                self.gradient_buffers.push(buffer);
            }
            Landing::ReduceLast { unit } => self.store_mut(unit).gradient.give_back(buffer),
            Landing::GatherAfterStep { unit } => match &mut self.store_mut(unit).weights {
                Weights::Replicated(whole) => whole.give_back(buffer),
                Weights::Sharded(_) | Weights::Tied => unreachable!("what was lent was whole"),
            },
            Landing::SendActivation { stage, slot } => {
                self.activations.slot_mut(stage, slot).output.give_back(buffer);
            }
            Landing::SendGradient { edge } => self.edges.give_back(edge, buffer),
            Landing::Receive { edge, micro_batch } => self.edges.hold(edge, micro_batch, buffer),
        }
    }

    fn store_mut(&mut self, unit: Unit) -> &mut crate::run::shard::UnitStore {
        self.stores.get_mut(&unit).expect("a rank runs only its own units")
    }

    /// The world rank that runs a stage at this rank's place along the data axis.
    pub(super) fn peer(&self, stage: Stage) -> usize {
        self.plan.grid().rank(self.plan.pipeline_rank_of(stage).index(), self.data_rank)
    }
}

/// Adds a rank's shard of what was reduced to its sum.
pub(super) fn add_reduced(sum: &mut Tagged, reduced: &mut Tagged, shard: Range<usize>) {
    reduced.write(|reduced| {
        sum.write(|sum| sum.iter_mut().zip(&reduced[shard]).for_each(|(sum, &part)| *sum += part));
        // The next backward adds into this buffer.
        reduced.fill(0.0);
    });
}
