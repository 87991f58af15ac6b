//! Instructions of the communication lanes: issued here, completed when an instruction waits for them.

use pipezero_comm::memory::TrackedBuffer;
use pipezero_comm::world::Position;
use pipezero_comm::{Channel, Communicator, Pending};
use pipezero_models::views::MAX_PARTS;
use pipezero_plan::Reduced;
use pipezero_schedule::{CheckedProgram, Edge, Instruction, Lane, MicroBatch, Unit};

use super::error::Cause;
use super::in_flight::{Completion, InFlight};
use super::rank::Rank;
use super::recorder::EventKind;
use super::sums::use_up;
use crate::shard::{GatheredCopy, UnreducedGradient, Weights};

impl Rank {
    pub(super) fn unshard(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        unit: Unit,
    ) -> Result<(), Cause> {
        let gather_buffer = program.gather_buffer(self.pipeline_rank.at(index));
        for (place, part) in self.plan.unit(unit).gathered_parts().enumerate() {
            let layout = self.stores[&unit].parts[part].layout;
            let buffer = self.gather_buffers[gather_buffer][place].lend();
            let owner = &self.stores[&self.plan.weights_owner(unit)];
            let shard = owner.parts[part].parameters().view().range(0..layout.shard_len());
            let pending =
                self.comm.start_gather_of(&self.groups.data, shard, buffer, 0..layout.padded_len())?;
            self.issue(index, pending, Completion::Unshard { unit, part, buffer: gather_buffer });
        }
        Ok(())
    }

    pub(super) fn reshard(&mut self, unit: Unit) {
        let store = self.store_mut(unit);
        let mut copy = store.gathered.pop_front().expect("a checked program reshards what is gathered");
        for (place, part) in self.plan.unit(unit).gathered_parts().enumerate() {
            let mut buffer = copy.buffers[part].take().expect("all parts of a copy were gathered");
            self.queue.discard(buffer.view_mut());
            self.gather_buffers[copy.index][place].give_back(buffer);
        }
    }

    pub(super) fn reduce(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let UnreducedGradient { buffers, index: gradient_buffer } =
            store.unreduced.pop_front().expect("a checked program reduces after each backward");
        for (part, buffer) in buffers.into_iter().enumerate() {
            let Some(buffer) = buffer else { continue };
            let range = 0..self.stores[&unit].parts[part].layout.padded_len();
            let pending = self.comm.start_reduce_scatter(&self.groups.data, buffer, range)?;
            self.issue(index, pending, Completion::Reduce { unit, part, buffer: gradient_buffer });
        }
        Ok(())
    }

    pub(super) fn reduce_last(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        for part in 0..self.stores[&unit].parts.len() {
            let own = &mut self.store_mut(unit).parts[part];
            if own.reduced != Reduced::Last {
                continue;
            }
            let (buffer, range) = (own.gradient.lend(), 0..own.layout.padded_len());
            let pending = self.comm.start_reduce_scatter(&self.groups.data, buffer, range)?;
            self.issue(index, pending, Completion::ReduceLast { unit, part });
        }
        Ok(())
    }

    pub(super) fn all_reduce(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        for part in 0..self.stores[&unit].parts.len() {
            let own = &mut self.store_mut(unit).parts[part];
            if !own.is_trained() {
                continue;
            }
            let (buffer, range) = (own.gradient.lend(), 0..own.layout.padded_len());
            let pending = self.comm.start_all_reduce(&self.groups.data, Channel::Reduce, buffer, range)?;
            self.issue(index, pending, Completion::ReduceLast { unit, part });
        }
        Ok(())
    }

    pub(super) fn gather_after_step(&mut self, index: usize, unit: Unit) -> Result<(), Cause> {
        for part in 0..self.stores[&unit].parts.len() {
            let own = &mut self.store_mut(unit).parts[part];
            let range = 0..own.layout.padded_len();
            if !own.is_trained() {
                continue;
            }
            let Weights::Replicated(whole) = &mut own.weights else { continue };
            let buffer = whole.lend();
            let pending = self.comm.start_all_gather(&self.groups.data, buffer, range)?;
            self.issue(index, pending, Completion::GatherAfterStep { unit, part });
        }
        Ok(())
    }

    pub(super) fn send(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        edge: Edge,
        micro_batch: MicroBatch,
    ) -> Result<(), Cause> {
        let (buffer, completion) = match edge {
            Edge::Up(stage) => {
                let slot = program.slot(stage, micro_batch);
                let buffer = self.activations.slot_mut(stage, slot).output.lend();
                (buffer, Completion::SendActivation { stage, slot })
            }
            Edge::Down(_) => (self.edges.take_held(edge, micro_batch), Completion::SendGradient { edge }),
        };
        let (to, len) = (self.peer(edge.receiver()), self.message_len(edge, micro_batch));
        let pending = self.comm.start_send_first(to, edge.index() as u32, buffer, len)?;
        self.issue(index, pending, completion);
        Ok(())
    }

    pub(super) fn receive(&mut self, index: usize, edge: Edge, micro_batch: MicroBatch) -> Result<(), Cause> {
        let (from, len) = (self.peer(edge.sender()), self.message_len(edge, micro_batch));
        let mut buffer = self.edges.take_free(edge);
        self.queue.discard(buffer.view_mut());
        let pending = self.comm.start_receive_first(from, edge.index() as u32, buffer, len)?;
        self.issue(index, pending, Completion::Receive { edge, micro_batch });
        Ok(())
    }

    /// Waits for the instruction at `index` of the row, if it is still in flight, and for those issued to its lane before
    /// it, and completes them: a lane is in order, so the dependency graph names only the last of a lane.
    /// `here` is the rank's position, given the instruction that it waits for.
    pub(super) fn complete_up_to(
        &mut self,
        row: &[Instruction],
        lane: Lane,
        index: usize,
        here: impl Fn(Instruction) -> Position,
    ) -> Result<(), Cause> {
        while let Some(first) = self.pop_issued(lane, |first| first <= index) {
            self.set_position(here(row[first.index]));
            let wait = self.recorder.begin_wait(first.index, lane);
            let instruction = first.index;
            // Of a unit of several parts the instruction has issued as many operations, one behind the other.
            let mut next = Some(first);
            let mut ended = [const { None }; MAX_PARTS];
            for place in &mut ended {
                let Some(InFlight { completion, pending, .. }) = next.take() else { break };
                *place = Some((completion, pending.wait()?));
                next = self.pop_issued(lane, |next| next == instruction);
            }
            self.recorder.end_wait(wait);
            ended.into_iter().flatten().for_each(|(completion, buffer)| self.complete(completion, buffer));
            self.recorder.record(instruction, EventKind::Ended);
        }
        Ok(())
    }

    /// The operation that was issued first to a lane, if its instruction is at such an index.
    fn pop_issued(&mut self, lane: Lane, is_asked_for: impl Fn(usize) -> bool) -> Option<InFlight> {
        self.in_flight.get_mut(&lane)?.pop_front_if(|first| is_asked_for(first.index))
    }

    /// Waits for everything that is in flight.
    pub(super) fn complete_all(&mut self, row: &[Instruction], step: u64) -> Result<(), Cause> {
        let lanes: Vec<Lane> = self.in_flight.keys().copied().collect();
        let here = |waits_for| Position::Draining { step, waits_for };
        lanes.into_iter().try_for_each(|lane| self.complete_up_to(row, lane, usize::MAX, here))
    }

    fn issue(&mut self, index: usize, pending: Box<dyn Pending>, completion: Completion) {
        self.in_flight.entry(completion.lane()).or_default().push_back(InFlight {
            index,
            pending,
            completion,
        });
    }

    fn complete(&mut self, completion: Completion, mut buffer: TrackedBuffer) {
        match completion {
            Completion::Unshard { unit, part, buffer: index } => {
                let gathered = &mut self.store_mut(unit).gathered;
                // A gather buffer is lent to one copy at a time, so an equal index means another part of the same copy.
                if gathered.back().is_none_or(|copy| copy.index != index) {
                    gathered.push_back(GatheredCopy { buffers: Default::default(), index });
                }
                gathered.back_mut().expect("it was pushed just now").buffers[part] = Some(buffer);
            }
            Completion::Reduce { unit, part, buffer: index } => {
                let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
                let own = &mut store.parts[part];
                let shard = own.layout.shard(self.data_rank);
                let next = own.take_next_mode();
                let sum = own.gradient.get_mut().view_mut().range(0..shard.len());
                use_up(&*self.queue, &mut buffer, shard, sum, next);
                self.gradient_buffers[index][part].give_back(buffer);
            }
            Completion::ReduceLast { unit, part } => {
                self.store_mut(unit).parts[part].gradient.give_back(buffer);
            }
            Completion::GatherAfterStep { unit, part } => match &mut self.store_mut(unit).parts[part].weights
            {
                Weights::Replicated(whole) => whole.give_back(buffer),
                Weights::Sharded(_) | Weights::CastFromMaster | Weights::Tied => {
                    unreachable!("only whole parameters are lent")
                }
            },
            Completion::SendActivation { stage, slot } => {
                self.activations.slot_mut(stage, slot).output.give_back(buffer);
            }
            Completion::SendGradient { edge } => self.edges.give_back(edge, buffer),
            Completion::Receive { edge, micro_batch } => self.edges.hold(edge, micro_batch, buffer),
        }
    }
}
