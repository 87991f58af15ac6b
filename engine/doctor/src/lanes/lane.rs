//! The groups and lanes that a plan's program uses.

use std::collections::BTreeMap;
use std::time::Duration;

use pipezero_comm::Channel;
use pipezero_config::Links;
use pipezero_plan::Plan;
use pipezero_plan::costs::{Message, MessageKind, Messages};
use pipezero_schedule::{Edge, Instruction};

/// Where messages of one kind go between the same ranks.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) kind: MessageKind,
    pub(super) channel: Channel,
    /// World ranks: of a transfer sender and receiver, else ascending.
    pub(super) members: Vec<usize>,
    /// The largest message of the plan there.
    message: Message,
}

impl Lane {
    /// Bytes of the largest message of the plan.
    pub(super) fn largest_bytes(&self) -> u64 {
        self.message.bytes
    }

    /// Bytes that a rank sends of a message of this size.
    pub(super) fn sent_bytes(&self, bytes: u64) -> u64 {
        self.message.with_bytes(bytes).sent_bytes
    }

    /// Time of a message on its emulated link, if the run has any.
    pub(super) fn on_its_link(&self, bytes: u64, links: Option<Links>) -> Duration {
        let over = links.map_or([0, 0], |links| self.message.with_bytes(bytes).over(&links));
        Duration::from_nanos(over[0].saturating_add(over[1]))
    }
}

/// Every group and lane of a plan in which more than one rank takes part, kind by kind.
pub(super) fn lanes(plan: &Plan) -> Vec<Lane> {
    let messages = Messages::of(plan);
    let mut found: BTreeMap<(MessageKind, Channel, Vec<usize>), Lane> = BTreeMap::new();
    for &instruction in plan.training().program().rows.iter().flatten() {
        let Some(message) = messages.get(instruction) else { continue };
        let channel = channel(instruction);
        for members in message.groups.iter().filter(|members| members.len() > 1) {
            let mut members = members.clone();
            if !message.kind.is_transfer() {
                members.sort_unstable();
            }
            let new =
                || Lane { kind: message.kind, channel, members: members.clone(), message: message.clone() };
            let lane = found.entry((message.kind, channel, members.clone())).or_insert_with(new);
            if lane.largest_bytes() < message.bytes {
                lane.message = message.clone();
            }
        }
    }
    found.into_values().collect()
}

fn channel(instruction: Instruction) -> Channel {
    let of_edge = |edge: Edge| Channel::Edge(edge.index() as u32);
    match instruction {
        Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => of_edge(edge),
        Instruction::AddTied { .. } => Channel::Tied,
        Instruction::GradientNorm => Channel::Words,
        Instruction::Unshard { .. } | Instruction::GatherAfterStep { .. } => Channel::Gather,
        _ => Channel::Reduce,
    }
}
