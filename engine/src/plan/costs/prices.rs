//! From prices of units and messages to the costs of a program: the same whether they were measured or calculated.

use std::num::NonZeroU32;

use pipezero_schedule::simulate::{Costs, Links, MessageCost, UnitCosts};
use pipezero_schedule::{Instruction, Unit};

use super::error::PredictError;
use super::messages::{Message, Messages};
use super::needs::{Needs, UnitNeeds};
use crate::plan::Plan;

/// What things cost, by one way or another of knowing it; times in nanoseconds.
pub(super) trait Prices {
    /// What the computes of a unit take; its messages are left at nothing.
    fn computes(&mut self, unit: Unit, needs: UnitNeeds) -> Result<UnitCosts, PredictError>;

    /// What a message costs.
    fn message(&mut self, message: &Message) -> Result<MessageCost, PredictError>;

    /// Which messages share a link.
    fn links(&self) -> Links;
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

/// What edges cost near and far, where some edge is near for one data rank and far for another.
pub(super) fn edges_by_reach<P: Prices>(
    plan: &Plan,
    prices: &mut P,
    ranks_per_node: Option<NonZeroU32>,
) -> Result<Option<EdgeCosts>, PredictError> {
    let messages = Messages::of(plan);
    let (mut edges, mut differ) = (EdgeCosts { near: Vec::new(), far: Vec::new() }, false);
    for send in Needs::of(plan.training()).edges {
        let message = send.and_then(|send| messages.get(send));
        let [near, far] = match message.map(|message| (message, message.by_reach(ranks_per_node))) {
            None => [MessageCost::default(); 2],
            Some((message, None)) => [prices.message(message)?; 2],
            Some((_, Some([near, far]))) => [prices.message(&near)?, prices.message(&far)?],
        };
        differ |= near != far;
        edges.near.push(near);
        edges.far.push(far);
    }
    Ok(differ.then_some(edges))
}

/// What every instruction of a plan's program costs. What does not occur in it costs nothing, and is not asked for.
pub(super) fn costs<P: Prices>(plan: &Plan, prices: &mut P) -> Result<Costs, PredictError> {
    let needs = Needs::of(plan.training());
    let messages = Messages::of(plan);
    let message_cost = |prices: &mut P, of: Option<Instruction>| match of.and_then(|of| messages.get(of)) {
        Some(message) => Prices::message(prices, message),
        None => Ok(MessageCost::default()),
    };
    let mut units = Vec::with_capacity(needs.units.len());
    for (index, &unit) in needs.units.iter().enumerate() {
        let computes = prices.computes(Unit(index as u32), unit)?;
        units.push(UnitCosts {
            gather: message_cost(prices, unit.unshard)?,
            reduce: message_cost(prices, unit.reduction)?,
            gather_after_step: message_cost(prices, unit.gather_after_step)?,
            ..computes
        });
    }
    let edges = needs.edges.iter().map(|&send| message_cost(prices, send)).collect::<Result<_, _>>()?;
    // All ranks wait for it in their rows, so its parts are not kept apart.
    let joint = |of: MessageCost| {
        [of.occupied, of.latency, of.landing].into_iter().fold(of.issue, u64::saturating_add)
    };
    let add_tied = joint(message_cost(prices, needs.add_tied)?);
    let gradient_norm = joint(message_cost(prices, needs.gradient_norm)?);
    Ok(Costs { units, edges, add_tied, gradient_norm, links: prices.links() })
}
