//! Who takes part in an instruction, and when all of them were ready.

use pipezero_plan::costs::MessageKind;
use pipezero_schedule::simulate::Links;
use pipezero_schedule::{Instruction, Lane, PipelineRank};

use super::place::Place;
use super::recorded::Recording;
use super::times::Shape;

/// A message of a step, or what its ranks did together on their compute lanes.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMessage {
    pub(crate) kind: MessageKind,
    /// The instructions that take part in it, one on each rank.
    pub(crate) members: Vec<Place>,
    /// When the last of them was ready: then it set out.
    pub(crate) ready_ns: u64,
}

impl RecordedMessage {
    /// Any of its instructions: all are of the same unit or edge.
    pub(crate) fn first(&self) -> Place {
        self.members[0]
    }

    /// The members that get something: all but the one that sends.
    pub(crate) fn receivers(&self) -> impl Iterator<Item = Place> {
        self.members.iter().copied().filter(|member| !member.is_send())
    }
}

impl Place {
    /// Whether it is the sender's end of a message between stages, which is done when its buffer is free again.
    pub(crate) fn is_send(self) -> bool {
        matches!(self.instruction, Instruction::Send { .. })
    }
}

impl Recording<'_> {
    /// Every message and joint instruction, once: a transfer at its send, all others at their first rank.
    pub(crate) fn messages(&self) -> impl Iterator<Item = RecordedMessage> {
        let sends = self.places().filter(|place| !matches!(place.instruction, Instruction::Receive { .. }));
        sends.filter_map(|place| {
            let kind = MessageKind::of(place.instruction)?;
            let members = self.members(place);
            (members[0] == place).then(|| RecordedMessage { kind, members, ready_ns: self.ready_ns(place) })
        })
    }

    /// The lane whose link a message occupies: gathers and reductions may share one.
    pub(crate) fn link(&self, place: Place) -> Lane {
        match place.instruction.lane() {
            Lane::Reduce if self.plan().links() == Some(Links::SharedByCollectives) => Lane::Gather,
            lane => lane,
        }
    }

    /// The instructions that must have started before this one can be done, itself among them: both ends of a transfer, a
    /// collective on all data ranks, a norm on all ranks. Of a transfer this end comes first, of all else the lowest rank.
    pub(crate) fn members(&self, place: Place) -> Vec<Place> {
        let (program, grid) = (self.program(), self.grid());
        let data_rank = grid.data_rank(place.rank);
        let on = |rank: PipelineRank, index: usize| self.place(grid.rank(rank.index(), data_rank), index);
        let joint = |rank: usize| {
            let index = self.row(rank).iter().rposition(|&of| of == place.instruction);
            self.place(rank, index.expect("a checked program has a joint instruction on all of its ranks"))
        };
        match place.instruction {
            Instruction::Send { .. } | Instruction::Receive { .. } => {
                let peer = program.peer(self.pipeline_rank(place.rank).at(place.index));
                let peer = peer.expect("a checked transfer has two ends");
                vec![place, on(peer.rank, peer.index)]
            }
            Instruction::AddTied { embedding, head } => {
                let mut ranks = [embedding, head].map(|unit| program.chain().rank(unit)).to_vec();
                ranks.dedup();
                ranks.into_iter().map(|rank| joint(grid.rank(rank.index(), data_rank))).collect()
            }
            Instruction::GradientNorm => (0..grid.world_size()).map(joint).collect(),
            _ if place.instruction.lane() == Lane::Compute => vec![place],
            _ => grid.data_group(place.rank).map(|rank| Place { rank, ..place }).collect(),
        }
    }

    /// When the last member of a message had issued it, or of a joint instruction had done its own part.
    pub(crate) fn ready_ns(&self, place: Place) -> u64 {
        let members = self.members(place).into_iter();
        members.map(|member| self.own_ready_ns(member)).max().expect("an instruction is its own member")
    }

    /// When a rank had done its own part of what it does with others; the start of what it does alone.
    pub(crate) fn own_ready_ns(&self, place: Place) -> u64 {
        match self.shape(place) {
            Shape::Compute | Shape::Joint => self.times(place).awaited_ns,
            Shape::Message => self.times(place).issued_ns,
        }
    }

    /// When everything was there that an instruction needs from other ranks.
    pub(crate) fn done_ns(&self, place: Place) -> u64 {
        match self.shape(place) {
            Shape::Compute | Shape::Joint => self.times(place).ended_ns,
            Shape::Message => self.times(place).arrived_ns,
        }
    }
}
