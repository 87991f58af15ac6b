//! What a plan says of the instructions that are recorded: which units are alike, what is sent, and over which emulated link.

use pipezero_plan::Plan;
use pipezero_plan::costs::{Message, MessageKind, Messages, UnitKey, counted_elements};
use pipezero_schedule::{CheckedProgram, Instruction, PipelineRank, Unit};

/// Messages with the same key share an entry of a costs file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageKey {
    pub(super) kind: MessageKind,
    /// Ranks that take part.
    pub(super) ranks: u64,
    /// Of the whole buffer.
    pub(super) bytes: u64,
}

/// The delay of a message on its emulated link; zero if the run emulates no links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EmulatedDelay {
    pub(super) occupied: u64,
    pub(super) latency: u64,
}

impl EmulatedDelay {
    pub(super) fn total(self) -> u64 {
        self.occupied.saturating_add(self.latency)
    }
}

/// A plan as far as a profile needs it.
#[derive(Clone, Debug)]
pub(super) struct Facts<'a> {
    pub(super) plan: &'a Plan,
    messages: Messages,
    /// What units consist of, each kind once.
    pub(super) keys: Vec<UnitKey>,
    /// `[unit]`: its index in `keys`.
    key_of: Vec<usize>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut keys: Vec<UnitKey> = Vec::new();
        let mut key_of = Vec::new();
        for unit in plan.units() {
            let key = UnitKey::of(unit);
            let index = keys.iter().position(|known| *known == key);
            key_of.push(index.unwrap_or(keys.len()));
            if index.is_none() {
                keys.push(key);
            }
        }
        Self { plan, messages: Messages::of(plan), keys, key_of }
    }

    pub(super) fn program(&self) -> &'a CheckedProgram {
        self.plan.training()
    }

    pub(super) fn pipeline_ranks(&self) -> impl Iterator<Item = PipelineRank> + use<> {
        self.program().ranks()
    }

    /// Which of the kinds a unit is.
    pub(super) fn key_of(&self, unit: Unit) -> usize {
        self.key_of[unit.index()]
    }

    /// The first unit of a kind.
    pub(super) fn first_of(&self, key: usize) -> Unit {
        let first = self.key_of.iter().position(|&of| of == key);
        Unit(first.expect("a kind is that of a unit") as u32)
    }

    /// Elements whose squares a rank adds.
    pub(super) fn counted_by(&self, rank: PipelineRank) -> u64 {
        self.plan.units_of(rank).map(|(unit, _)| counted_elements(self.plan, unit)).sum()
    }

    /// What the costs file calls the message of an instruction.
    ///
    /// # Panics
    /// If it sends nothing; so do the other methods that want a message.
    pub(super) fn key(&self, instruction: Instruction) -> MessageKey {
        let message = self.message(instruction);
        MessageKey { kind: message.kind, ranks: message.num_ranks() as u64, bytes: message.bytes }
    }

    pub(super) fn message(&self, instruction: Instruction) -> &Message {
        self.messages.get(instruction).expect("only messages are asked for")
    }

    /// Instructions of a step that send such a message, over all pipeline ranks.
    pub(super) fn num_messages(&self, key: MessageKey) -> u64 {
        let rows = self.pipeline_ranks().flat_map(|rank| self.program().row(rank));
        let is_of = |of: &&Instruction| self.messages.get(**of).is_some() && self.key(**of) == key;
        rows.filter(is_of).count() as u64
    }

    /// What the message of an instruction costs on its link; there is none within a rank.
    pub(super) fn emulated(&self, instruction: Instruction) -> EmulatedDelay {
        self.over_its_link(self.message(instruction))
    }

    /// What a message costs on its link.
    pub(super) fn over_its_link(&self, message: &Message) -> EmulatedDelay {
        let links = self.plan.run().comm.links.filter(|_| message.num_ranks() > 1);
        let [occupied, latency] = links.map_or([0, 0], |links| message.over(&links));
        EmulatedDelay { occupied, latency }
    }
}
