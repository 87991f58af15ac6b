//! From how many tokens of a micro-batch on gathers and reductions vanish behind compute: by formula, and by bisection on
//! the simulator.
//!
//! Units are equal, and a token costs 2 operations a parameter forward and 4 backward (attention's own products are left
//! out); weights are gathered in 2 bytes and gradients reduced in 4, over one link, without latency. Then, for `d` data
//! ranks, devices of `F` operations a second and links of `W` bytes a second,
//!
//! - a unit's gather is as long as its forward at `(d - 1) / d * F / W` tokens, whatever the unit's size;
//! - its gather and its reduction together are as long as its backward at 1.5 times that;
//! - with recomputation a backward is half as long again, and hides both where the forward hides the gather.
//!
//! A step whose makespan is that of compute alone, the first gather and the last reduction hides all else.

use std::error::Error;

use pipezero::schedule::simulate::{Costs, CostsError, Links, MessageCost, UnitCosts, simulate};
use pipezero::schedule::{CheckedProgram, ComputeOrder, LowerOptions, Residency, Stage, UnitFacts};
use pipezero::schedule::{generate, lower};

use crate::case::{MICRO_BATCHES, PIPELINE};

const UNITS_PER_STAGE: u64 = 3;

/// What hides what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Forwards alone, as in an evaluation.
    Forward,
    /// Forwards, and then backwards alone: GPipe.
    Backward,
    /// Forwards and backwards in turn: 1F1B.
    Mixed,
    /// The same, and each backward after a recomputation.
    Recomputed,
}

/// Rates, whole so that nothing is rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) data_degree: u64,
    /// Operations a second, in 10^9.
    pub(crate) gflops_per_s: u64,
    /// Bytes a second that a rank sends, in 10^9.
    pub(crate) gb_per_s: u64,
}

impl Rates {
    /// Tokens from which on forwards hide gathers.
    pub(crate) fn formula(self) -> f64 {
        let share = (self.data_degree - 1) as f64 / self.data_degree as f64;
        share * self.gflops_per_s as f64 / self.gb_per_s as f64
    }

    /// A unit's forward and its gather, in a unit of time in which both are whole.
    fn times(self, tokens: u64) -> (u64, u64) {
        (tokens * self.data_degree * self.gb_per_s, (self.data_degree - 1) * self.gflops_per_s)
    }

    /// The fewest tokens at which a step hides all but its first gather and its last reduction.
    pub(crate) fn simulated(self, phase: Phase) -> Result<u64, Box<dyn Error>> {
        let program = phase.program()?;
        let (mut too_few, mut enough) = (0, 2 * self.formula().ceil() as u64);
        while enough - too_few > 1 {
            let tokens = too_few.midpoint(enough);
            if self.hides(&program, phase, tokens)? {
                enough = tokens;
            } else {
                too_few = tokens;
            }
        }
        Ok(enough)
    }

    /// Whether a step takes no longer than its computes, the first gather and the last reduction.
    fn hides(self, program: &CheckedProgram, phase: Phase, tokens: u64) -> Result<bool, Box<dyn Error>> {
        let (forward, gather) = self.times(tokens);
        let reduce = if phase == Phase::Forward { 0 } else { 2 * gather };
        let unit = UnitCosts::of_compute(forward, forward, forward);
        let over_links = UnitCosts {
            gather: MessageCost::of_link(gather, 0),
            reduce: MessageCost::of_link(reduce, 0),
            ..unit
        };
        let makespan = |unit| {
            let costs = Costs::uniform(program, unit, MessageCost::default());
            let costs = Costs { links: Links::SharedByCollectives, ..costs };
            Ok::<_, CostsError>(simulate(program, &costs)?.makespan())
        };
        Ok(makespan(over_links)? <= makespan(unit)? + gather + reduce)
    }
}

impl Phase {
    /// The case's stages of 3 units, strict with one unit of prefetch.
    fn program(self) -> Result<CheckedProgram, Box<dyn Error>> {
        let order = self.order()?;
        let stages = (0..PIPELINE as u32).flat_map(|stage| [Stage(stage); UNITS_PER_STAGE as usize]);
        let recomputes = self == Self::Recomputed;
        let units: Vec<_> =
            stages.map(|stage| UnitFacts { recomputes, ..UnitFacts::new(stage, 1) }).collect();
        let options = LowerOptions::zero_3(Residency::Strict, 1);
        Ok(CheckedProgram::new(lower(&order, &units, &options)?)?)
    }

    fn order(self) -> Result<ComputeOrder, Box<dyn Error>> {
        let (pipeline, micro_batches) = (PIPELINE as u32, MICRO_BATCHES as u32);
        Ok(match self {
            Self::Forward => generate::forward_only(pipeline, micro_batches)?,
            Self::Backward => generate::gpipe(pipeline, micro_batches)?,
            Self::Mixed | Self::Recomputed => generate::one_f_one_b(pipeline, micro_batches)?,
        })
    }
}
