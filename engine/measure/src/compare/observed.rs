//! What instructions cost, read off the very steps that a prediction is to be compared with.
//!
//! A prediction from such costs has the right price for each kind of instruction of each unit; whatever it still gets wrong is
//! the *structure*: what waits for what, what overlaps, what repeats the same time and what does not. Costs that were
//! profiled apart from the run add the error of the prices.
//!
//! A price is the mean over all its instructions of a step, so that the sum over the step is right even where members of an
//! exchange take turns in carrying it out; of several steps, the one in the middle.

use pipezero_plan::Plan;
use pipezero_plan::costs::{MessageKind, Route};
use pipezero_schedule::simulate::{Costs, Links, MessageCost, UnitCosts};
use pipezero_schedule::{Edge, InstructionKind, Unit};

use super::prices::{Item, Prices};
use super::transit::TransitTimes;
use crate::recording::Recording;

/// The costs of the program of a plan in the steps that were recorded of it.
pub fn observed_costs(plan: &Plan, steps: &[Recording<'_>]) -> Costs {
    let mut observed = Observed { plan, prices: Prices::default(), transit: TransitTimes::new(plan) };
    for step in steps {
        observed.prices.add(step);
        observed.transit.add(step);
    }
    let chain = plan.training().chain();
    let edge =
        |edge: Edge| observed.message_cost(&[MessageKind::Activation, MessageKind::Gradient], edge.index());
    Costs {
        units: (0..chain.num_units() as u32).map(|unit| observed.unit(Unit(unit))).collect(),
        edges: chain.edges().map(edge).collect(),
        add_tied: observed.prices.median_ns(Item::AddTied),
        gradient_norm: observed.prices.median_ns(Item::Norm),
        links: plan.links().unwrap_or(Links::Own),
    }
}

struct Observed<'a> {
    plan: &'a Plan,
    prices: Prices,
    transit: TransitTimes<'a>,
}

impl Observed<'_> {
    fn unit(&self, unit: Unit) -> UnitCosts {
        let compute = |kind| self.prices.median_ns(Item::Compute(kind, unit));
        let message = |kinds: &[MessageKind]| self.message_cost(kinds, unit.index());
        let chain = self.plan.training().chain();
        let rank = chain.rank(unit);
        // Only the sum over a rank counts, so its first unit stands for all.
        let is_first = chain.units_on(rank).next() == Some(unit);
        UnitCosts {
            forward: compute(InstructionKind::Forward),
            backward: compute(InstructionKind::Backward),
            backward_input: compute(InstructionKind::BackwardInput),
            backward_weight: compute(InstructionKind::BackwardWeight),
            recompute: compute(InstructionKind::Recompute),
            optimizer_step: compute(InstructionKind::OptimizerStep),
            gradient_norm: if is_first { self.prices.median_ns(Item::OwnNorm(rank)) } else { 0 },
            gather: message(&[MessageKind::Unshard]),
            reduce: message(&[MessageKind::Reduce]),
            reduce_last: message(&[MessageKind::ReduceLast, MessageKind::AllReduce]),
            gather_after_step: message(&[MessageKind::GatherAfterStep]),
        }
    }

    /// What a message of a unit or over an edge costs: of the one of these kinds that it has.
    fn message_cost(&self, kinds: &[MessageKind], index: usize) -> MessageCost {
        let mut costs = kinds.iter().map(|&kind| {
            let route = Route { kind, index };
            let [occupied, latency] = self.transit.occupied_and_latency_ns(route);
            MessageCost {
                issue: self.prices.median_ns(Item::Issue(route)),
                occupied,
                latency,
                landing: self.prices.median_ns(Item::Completion(route)),
            }
        });
        costs.find(|cost| *cost != MessageCost::default()).unwrap_or_default()
    }
}
