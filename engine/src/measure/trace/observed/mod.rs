//! What instructions cost, read off the very steps that a prediction is to be compared with.
//!
//! A prediction from such costs has the right price for each kind of instruction of each unit; whatever it still gets wrong is
//! the *structure*: what waits for what, what overlaps, what repeats the same time and what does not. Costs that were
//! profiled apart from the run add the error of the prices.
//!
//! A price is the mean over all its instructions of a step, so that the sum over the step is right even where members of an
//! exchange take turns in carrying it out; of several steps, the one in the middle.

mod carrier;
mod prices;
mod ways;

use pipezero_schedule::simulate::{Costs, Links, MessageCost, UnitCosts};
use pipezero_schedule::{InstructionKind, Unit};

pub(super) use self::carrier::Carrier;
use self::prices::{Item, Prices};
use self::ways::Ways;
pub(super) use self::ways::was_waited_for;
use super::recorded::Recorded;
use crate::plan::Plan;

/// The costs of the program of a plan in the steps that were recorded of it.
pub fn observed_costs(plan: &Plan, steps: &[Recorded]) -> Costs {
    let (mut prices, mut ways) = (Prices::default(), Ways::default());
    for step in steps {
        prices.add(plan.training(), step);
        ways.add(plan, step);
    }
    let observed = Observed { plan, prices, ways };
    let chain = plan.training().chain();
    Costs {
        units: (0..chain.num_units() as u32).map(|unit| observed.unit(Unit(unit))).collect(),
        edges: chain.edges().map(|edge| observed.passage(Carrier::Edge(edge))).collect(),
        add_tied: observed.prices.median_ns(Item::AddTied),
        gradient_norm: observed.prices.median_ns(Item::Norm),
        links: plan.links().unwrap_or(Links::Own),
    }
}

struct Observed<'a> {
    plan: &'a Plan,
    prices: Prices,
    ways: Ways,
}

impl Observed<'_> {
    fn unit(&self, unit: Unit) -> UnitCosts {
        let compute = |kind| self.prices.median_ns(Item::Compute(kind, unit));
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
            gather: self.passage(Carrier::Gather(unit)),
            reduce: self.passage(Carrier::Reduce(unit)),
            gather_after_step: self.passage(Carrier::GatherAfterStep(unit)),
        }
    }

    fn passage(&self, carrier: Carrier) -> MessageCost {
        let way_ns = self.ways.median_ns(carrier);
        let latency = carrier.latency_ns(self.plan).min(way_ns);
        MessageCost {
            issue: self.prices.median_ns(Item::Issue(carrier)),
            occupied: way_ns - latency,
            latency,
            landing: self.prices.median_ns(Item::Landing(carrier)),
        }
    }
}

/// The one in the middle; of an even number the upper one of the two.
pub(super) fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}
