//! The messages of a plan: between whom, and how large.

use std::iter::once;
use std::num::NonZeroU32;

use pipezero_models::ElementType;
use pipezero_partition::NORM_RECORD_WORDS;
use pipezero_partition::part_bytes;
use pipezero_schedule::{Edge, Instruction, PipelineRank, Unit};

use super::message_kind::MessageKind;
use crate::config::Links;
use crate::config::{ReductionPolicy, ZeroLevel};
use crate::plan::{Plan, PlannedUnit};

/// What the elements of a gradient are in every precision.
const GRADIENT_TYPE: ElementType = ElementType::F32;

/// Bytes of an element of a gradient.
pub(super) const GRADIENT_BYTES: usize = GRADIENT_TYPE.num_bytes();

/// A message, as all data ranks have it at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: MessageKind,
    /// What its elements are; `None` of the norm's record, which is of words.
    pub(crate) element_type: Option<ElementType>,
    /// Bytes of the whole buffer, padding included.
    pub(crate) bytes: u64,
    /// Bytes that a rank sends of it.
    pub(crate) sent_bytes: u64,
    /// The world ranks that take part: one group for each data rank where each has a message of its own. All are of
    /// one size.
    pub(crate) groups: Vec<Vec<usize>>,
}

impl Message {
    /// Ranks that take part.
    pub(crate) fn num_ranks(&self) -> usize {
        self.groups[0].len()
    }

    /// The same message with other bytes, of which a rank sends the same share.
    pub(crate) fn with_bytes(&self, bytes: u64) -> Self {
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

    /// Over imitated links: how long it occupies the slowest of its groups' links, and how much later it arrives,
    /// nanoseconds.
    pub(crate) fn over(&self, links: &Links) -> [u64; 2] {
        let over = |ranks: &Vec<usize>| {
            let link = links.between(ranks);
            [link.occupied_ns(self.sent_bytes), link.latency_ns()]
        };
        let time = |message_cost: &[u64; 2]| message_cost[0].saturating_add(message_cost[1]);
        self.groups.iter().map(over).max_by_key(time).expect("a message is of some ranks")
    }
}

/// All messages of a plan. What its program does not send is here too: it is for the program to say.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    /// `[unit]`
    gathers: Vec<Message>,
    /// `[unit]`
    reductions: Vec<Message>,
    /// `[unit]`
    gathers_after_step: Vec<Message>,
    /// `[edge]`, by [`Edge::index`].
    edges: Vec<Message>,
    add_tied: Option<Message>,
    gradient_norm: Message,
}

impl Messages {
    /// Reads them off the plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let reduction = match (plan.run().zero.level, plan.run().zero.reduce) {
            (ZeroLevel::Zero0, _) => MessageKind::AllReduce,
            (_, ReductionPolicy::Last) => MessageKind::ReduceLast,
            (_, ReductionPolicy::Every) => MessageKind::Reduce,
        };
        let collectives = |kind, element_type| {
            plan.units().iter().map(|unit| collective(plan, unit, kind, element_type)).collect()
        };
        Self {
            gathers: collectives(MessageKind::Unshard, plan.element_type()),
            reductions: collectives(reduction, GRADIENT_TYPE),
            gathers_after_step: collectives(MessageKind::GatherAfterStep, plan.element_type()),
            edges: plan.training().chain().edges().map(|edge| transfer(plan, edge)).collect(),
            add_tied: add_tied(plan),
            gradient_norm: gradient_norm(plan),
        }
    }

    /// `[edge]`: bytes of a message over it.
    pub(crate) fn edge_bytes(&self) -> Vec<u64> {
        self.edges.iter().map(|message| message.bytes).collect()
    }

    /// What an instruction sends, if it sends anything.
    pub(crate) fn get(&self, instruction: Instruction) -> Option<&Message> {
        match instruction {
            Instruction::Unshard { unit } => Some(&self.gathers[unit.index()]),
            Instruction::Reduce { unit, .. }
            | Instruction::ReduceLast { unit }
            | Instruction::AllReduce { unit } => Some(&self.reductions[unit.index()]),
            Instruction::GatherAfterStep { unit } => Some(&self.gathers_after_step[unit.index()]),
            Instruction::Send { edge, .. } | Instruction::Receive { edge, .. } => {
                Some(&self.edges[edge.index()])
            }
            Instruction::AddTied { .. } => self.add_tied.as_ref(),
            Instruction::GradientNorm => Some(&self.gradient_norm),
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Recompute { .. }
            | Instruction::Reshard { .. }
            | Instruction::OptimizerStep { .. } => None,
        }
    }
}

/// A collective over the data ranks of a unit.
fn collective(plan: &Plan, unit: &PlannedUnit, kind: MessageKind, element_type: ElementType) -> Message {
    let grid = plan.grid();
    let members = grid.data_group(grid.rank(plan.pipeline_rank_of(unit.stage).index(), 0));
    let (num_elements, element_bytes) = (unit.layout.padded_len(), element_type.num_bytes());
    // An all-reduce is a reduce-scatter and an all-gather.
    let passes = if kind == MessageKind::AllReduce { 2 } else { 1 };
    Message {
        kind,
        element_type: Some(element_type),
        bytes: (num_elements * element_bytes) as u64,
        sent_bytes: passes * part_bytes(num_elements, members.len(), element_bytes),
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

fn transfer(plan: &Plan, edge: Edge) -> Message {
    let (lower, kind) = match edge {
        Edge::Up(stage) => (stage, MessageKind::Activation),
        Edge::Down(stage) => (stage, MessageKind::Gradient),
    };
    let last = plan.units().iter().rfind(|unit| unit.stage == lower).expect("every stage has a unit");
    let bytes = (last.sizes.output * plan.element_type().num_bytes()) as u64;
    let rank = |stage| plan.pipeline_rank_of(stage);
    Message {
        kind,
        element_type: Some(plan.element_type()),
        bytes,
        sent_bytes: bytes,
        groups: pairs(plan, rank(edge.sender()), rank(edge.receiver())),
    }
}

/// The gradients of both uses of a tied weight: what a data rank owns of them.
fn add_tied(plan: &Plan) -> Option<Message> {
    let (embedding, head) = plan.training().chain().tied()?;
    let rank = |unit: Unit| plan.pipeline_rank_of(plan.unit(unit).stage);
    let groups = pairs(plan, rank(embedding), rank(head));
    let num_elements = owned_elements(plan, embedding) as usize;
    Some(Message {
        kind: MessageKind::AddTied,
        element_type: Some(GRADIENT_TYPE),
        bytes: (num_elements * GRADIENT_BYTES) as u64,
        sent_bytes: 2 * part_bytes(num_elements, groups[0].len(), GRADIENT_BYTES),
        groups,
    })
}

/// The record of a step, over all ranks.
fn gradient_norm(plan: &Plan) -> Message {
    let members: Vec<usize> = (0..plan.grid().world_size()).collect();
    let num_words = NORM_RECORD_WORDS as usize;
    Message {
        kind: MessageKind::GradientNorm,
        element_type: None,
        bytes: (num_words * size_of::<u64>()) as u64,
        sent_bytes: 2 * part_bytes(num_words, members.len(), size_of::<u64>()),
        groups: vec![members],
    }
}

/// Elements of a unit that a rank's optimizer updates, padding included.
pub(crate) fn owned_elements(plan: &Plan, unit: Unit) -> u64 {
    let layout = plan.unit(unit).layout;
    let owned =
        if plan.run().zero.level == ZeroLevel::Zero0 { layout.padded_len() } else { layout.shard_len() };
    owned as u64
}

/// Elements of a unit's gradient whose squares a rank adds to the norm, padding included: its shard, whatever the level.
pub(crate) fn counted_elements(plan: &Plan, unit: Unit) -> u64 {
    if plan.counts_in_norm(unit) { plan.unit(unit).layout.shard_len() as u64 } else { 0 }
}
