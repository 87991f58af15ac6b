//! The messages of a plan: between whom, and how large.

use std::collections::BTreeMap;
use std::iter::once;
use std::num::NonZeroU32;

use pipezero_config::{Links, ZeroLevel};
use pipezero_models::ElementType;
use pipezero_partition::{LOSS_PART_WORDS, NORM_RECORD_WORDS, UnitSharding, part_bytes};
use pipezero_schedule::{Edge, Instruction, PipelineRank, Unit};

use super::message_kind::MessageKind;
use super::route::Route;
use crate::{Plan, PlannedPart, PlannedUnit, Reduced};

/// What the elements of a gradient are in every precision.
const GRADIENT_TYPE: ElementType = ElementType::F32;

/// Bytes of an element of a gradient.
pub(crate) const GRADIENT_BYTES: usize = GRADIENT_TYPE.num_bytes();

/// A message, as all data ranks have it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its kind.
    pub kind: MessageKind,
    /// What its elements are; `None` of the norm's record, which is of words.
    pub element_type: Option<ElementType>,
    /// Bytes of the whole buffer, padding included.
    pub bytes: u64,
    /// Bytes that a rank sends of it.
    pub sent_bytes: u64,
    /// The world ranks that take part: one group for each data rank where each has a message of its own. All are of
    /// one size.
    pub groups: Vec<Vec<usize>>,
}

impl Message {
    /// Ranks that take part.
    pub fn num_ranks(&self) -> usize {
        self.groups[0].len()
    }

    /// The same message with other bytes, of which a rank sends the same share.
    pub fn with_bytes(&self, bytes: u64) -> Self {
        let sent_bytes = u128::from(self.sent_bytes) * u128::from(bytes) / u128::from(self.bytes.max(1));
        Self { bytes, sent_bytes: u64::try_from(sent_bytes).unwrap_or(u64::MAX), ..self.clone() }
    }

    /// What it is between near ranks, and what between far ones, where it has groups of both.
    pub(super) fn by_reach(&self, ranks_per_node: Option<NonZeroU32>) -> Option<[Self; 2]> {
        let node = |rank: &usize| ranks_per_node.map_or(0, |num_ranks| rank / num_ranks.get() as usize);
        let is_near = |ranks: &&Vec<usize>| ranks.iter().all(|rank| node(rank) == node(&ranks[0]));
        let (near, far): (Vec<_>, Vec<_>) = self.groups.iter().partition(is_near);
        let of =
            |groups: Vec<&Vec<usize>>| Self { groups: groups.into_iter().cloned().collect(), ..self.clone() };
        (!near.is_empty() && !far.is_empty()).then(|| [of(near), of(far)])
    }

    /// Over emulated links: how long it occupies the slowest of its groups' links, and how much later it arrives,
    /// nanoseconds.
    pub fn over(&self, links: &Links) -> [u64; 2] {
        let over = |ranks: &Vec<usize>| {
            let link = links.between(ranks);
            [link.occupied_ns(self.sent_bytes), link.latency_ns()]
        };
        let time = |message_cost: &[u64; 2]| message_cost[0].saturating_add(message_cost[1]);
        self.groups.iter().map(over).max_by_key(time).expect("a message is of some ranks")
    }
}

/// The messages that a plan's program sends.
#[derive(Clone, Debug)]
pub struct Messages(BTreeMap<Route, Message>);

impl Messages {
    /// Reads them off the plan.
    pub fn of(plan: &Plan) -> Self {
        let mut messages = BTreeMap::new();
        for &instruction in plan.training().program().rows.iter().flatten() {
            if let Some(route) = Route::of(instruction) {
                messages.entry(route).or_insert_with(|| message(plan, route.kind, instruction));
            }
        }
        Self(messages)
    }

    /// What an instruction sends, if it sends anything.
    pub fn get(&self, instruction: Instruction) -> Option<&Message> {
        self.0.get(&Route::of(instruction)?)
    }

    /// The message of a unit or over an edge that is of one of these kinds.
    pub(super) fn find(&self, kinds: &[MessageKind], index: usize) -> Option<&Message> {
        kinds.iter().find_map(|&kind| self.0.get(&Route { kind, index }))
    }
}

fn message(plan: &Plan, kind: MessageKind, instruction: Instruction) -> Message {
    match instruction {
        Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => transfer(plan, kind, edge),
        Instruction::AddTied { embedding, head } => add_tied(plan, embedding, head),
        _ => match instruction.unit() {
            Some(unit) => collective(plan, kind, plan.unit(unit)),
            None => gradient_norm(plan),
        },
    }
}

/// Whether a part of a unit is in a collective of this kind.
fn is_sent(plan: &Plan, kind: MessageKind, part: &PlannedPart) -> bool {
    let zero = &plan.run().zero;
    let is_sharded = zero.level == ZeroLevel::Zero3 && part.sharding == UnitSharding::Sharded;
    match kind {
        MessageKind::Reduce => part.reduced(zero) == Reduced::Every,
        MessageKind::ReduceLast => part.reduced(zero) == Reduced::Last,
        MessageKind::Unshard => is_sharded,
        MessageKind::GatherAfterStep => !is_sharded && !part.is_frozen,
        _ => !part.is_frozen,
    }
}

/// A collective over the data ranks of a unit. Those of several parts are one message of all their bytes: they follow each other on a lane,
/// where latency delays a message and does not occupy it.
fn collective(plan: &Plan, kind: MessageKind, unit: &PlannedUnit) -> Message {
    let grid = plan.grid();
    let members = grid.data_group(grid.rank(plan.pipeline_rank_of(unit.stage).index(), 0));
    let is_gather = matches!(kind, MessageKind::Unshard | MessageKind::GatherAfterStep);
    let element_type = if is_gather { plan.element_type() } else { GRADIENT_TYPE };
    let element_bytes = element_type.num_bytes();
    let parts = unit.parts.iter().filter(|part| is_sent(plan, kind, part));
    let part_lens: Vec<usize> = parts.map(|part| part.layout.padded_len()).collect();
    // An all-reduce is a reduce-scatter and an all-gather.
    let passes = if kind == MessageKind::AllReduce { 2 } else { 1 };
    Message {
        kind,
        element_type: Some(element_type),
        bytes: (part_lens.iter().sum::<usize>() * element_bytes) as u64,
        sent_bytes: passes
            * part_lens.iter().map(|&len| part_bytes(len, members.len(), element_bytes)).sum::<u64>(),
        groups: vec![members.collect()],
    }
}

/// A message between two pipeline ranks, at every place along the data axis.
fn pairs(plan: &Plan, from: PipelineRank, to: PipelineRank) -> Vec<Vec<usize>> {
    let grid = plan.grid();
    let pair = |data_rank| {
        let ends = [grid.rank(from.index(), data_rank), grid.rank(to.index(), data_rank)];
        once(ends[0]).chain((ends[0] != ends[1]).then_some(ends[1])).collect()
    };
    (0..grid.data_degree).map(pair).collect()
}

/// Bytes of a message over an edge.
pub(super) fn edge_bytes(plan: &Plan, edge: Edge) -> u64 {
    let (Edge::Up(lower) | Edge::Down(lower)) = edge;
    let last = plan.units().iter().rfind(|unit| unit.stage == lower).expect("every stage has a unit");
    (last.sizes.output * plan.element_type().num_bytes()) as u64
}

fn transfer(plan: &Plan, kind: MessageKind, edge: Edge) -> Message {
    let bytes = edge_bytes(plan, edge);
    let [sender, receiver] = [edge.sender(), edge.receiver()].map(|stage| plan.pipeline_rank_of(stage));
    Message {
        kind,
        element_type: Some(plan.element_type()),
        bytes,
        sent_bytes: bytes,
        groups: pairs(plan, sender, receiver),
    }
}

/// The gradients of both uses of a tied weight: what a data rank owns of them.
fn add_tied(plan: &Plan, embedding: Unit, head: Unit) -> Message {
    let [first, second] = [embedding, head].map(|unit| plan.pipeline_rank_of(plan.unit(unit).stage));
    let groups = pairs(plan, first, second);
    let num_elements = owned_elements(plan, embedding) as usize;
    Message {
        kind: MessageKind::AddTied,
        element_type: Some(GRADIENT_TYPE),
        bytes: (num_elements * GRADIENT_BYTES) as u64,
        sent_bytes: 2 * part_bytes(num_elements, groups[0].len(), GRADIENT_BYTES),
        groups,
    }
}

/// The record of a step, over all ranks.
fn gradient_norm(plan: &Plan) -> Message {
    let members: Vec<usize> = (0..plan.grid().world_size()).collect();
    let num_words = NORM_RECORD_WORDS as usize + LOSS_PART_WORDS as usize * plan.loss_parts().len();
    Message {
        kind: MessageKind::GradientNorm,
        element_type: None,
        bytes: (num_words * size_of::<u64>()) as u64,
        sent_bytes: 2 * part_bytes(num_words, members.len(), size_of::<u64>()),
        groups: vec![members],
    }
}

/// Elements of a unit that a rank's optimizer updates, padding included, if it is trained.
pub fn owned_elements(plan: &Plan, unit: Unit) -> u64 {
    let unit = plan.unit(unit);
    let is_whole = plan.run().zero.level == ZeroLevel::Zero0;
    let owned = if is_whole { unit.gradient_len() } else { unit.trained_shard_len() };
    owned as u64
}

/// Elements of a unit's gradient whose squares a rank adds to the norm, padding included: its shard, whatever the level.
pub fn counted_elements(plan: &Plan, unit: Unit) -> u64 {
    if plan.counts_in_norm(unit) { plan.unit(unit).trained_shard_len() as u64 } else { 0 }
}
