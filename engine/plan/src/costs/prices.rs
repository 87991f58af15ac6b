//! From prices of units and messages to the costs of a program: the same whether they were measured or calculated.

use std::num::NonZeroU32;

use pipezero_schedule::Unit;
use pipezero_schedule::simulate::{Costs, Links, MessageCost, UnitCosts};

use super::error::PredictError;
use super::message_kind::MessageKind;
use super::messages::{Message, Messages};
use super::needs::UnitNeeds;
use crate::Plan;

/// What things cost, by one way or another of knowing it; times in nanoseconds.
pub(super) trait Prices {
    /// What the computes of a unit take; its messages are left at nothing.
    fn computes(&mut self, unit: Unit, needs: UnitNeeds) -> Result<UnitCosts, PredictError>;

    /// What a message costs.
    fn message(&mut self, message: &Message) -> Result<MessageCost, PredictError>;
}

/// What messages over edges cost where both of their ranks are on one node, and where they are on two: `[edge]`, by
/// [`pipezero_schedule::Edge::index`]. An edge that has only messages of one sort costs the same in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeCosts {
    /// Within a node.
    pub near: Vec<MessageCost>,
    /// Between nodes.
    pub far: Vec<MessageCost>,
}

/// What every instruction of a plan's program costs, and what edges cost near and far where some edge is near for one data
/// rank and far for another. What does not occur in the program costs nothing, and is not asked for.
pub(super) fn costs<P: Prices>(
    plan: &Plan,
    prices: &mut P,
    links: Links,
    ranks_per_node: Option<NonZeroU32>,
) -> Result<(Costs, Option<EdgeCosts>), PredictError> {
    use MessageKind::{
        Activation, AddTied, AllReduce, GatherAfterStep, Gradient, GradientNorm, Reduce, ReduceLast, Unshard,
    };
    let messages = Messages::of(plan);
    let cost = |prices: &mut P, kinds: &[MessageKind], index: usize| match messages.find(kinds, index) {
        Some(message) => prices.message(message),
        None => Ok(MessageCost::default()),
    };
    let mut units = Vec::new();
    for (index, needs) in UnitNeeds::of(plan.training()).into_iter().enumerate() {
        let computes = prices.computes(Unit(index as u32), needs)?;
        units.push(UnitCosts {
            gather: cost(prices, &[Unshard], index)?,
            reduce: cost(prices, &[Reduce], index)?,
            reduce_last: cost(prices, &[ReduceLast, AllReduce], index)?,
            gather_after_step: cost(prices, &[GatherAfterStep], index)?,
            ..computes
        });
    }
    let num_edges = plan.training().chain().num_edges();
    let edges = (0..num_edges).map(|edge| cost(prices, &[Activation, Gradient], edge));
    let edges: Vec<MessageCost> = edges.collect::<Result<_, _>>()?;
    // All ranks wait for it in their rows, so its parts are not kept apart.
    let joint = |of: MessageCost| {
        [of.occupied, of.latency, of.landing].into_iter().fold(of.issue, u64::saturating_add)
    };
    let add_tied = joint(cost(prices, &[AddTied], 0)?);
    let gradient_norm = joint(cost(prices, &[GradientNorm], 0)?);
    let mut by_reach = EdgeCosts { near: edges.clone(), far: edges.clone() };
    for edge in 0..num_edges {
        let message = messages.find(&[Activation, Gradient], edge);
        if let Some([near, far]) = message.and_then(|message| message.by_reach(ranks_per_node)) {
            (by_reach.near[edge], by_reach.far[edge]) = (prices.message(&near)?, prices.message(&far)?);
        }
    }
    let by_reach = (by_reach.near != by_reach.far).then_some(by_reach);
    Ok((Costs { units, edges, add_tied, gradient_norm, links }, by_reach))
}
