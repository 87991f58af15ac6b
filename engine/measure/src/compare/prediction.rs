//! What a step is predicted to take, and from what.

use pipezero_plan::Plan;
use pipezero_plan::costs::{PredictError, Predicted};
use pipezero_schedule::simulate::{Costs, CostsError, Timeline, simulate};

use super::median::median;
use super::observed::observed_costs;
use crate::recording::Recording;

/// What a step is predicted to take.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// When each instruction starts and ends; one timeline for all data ranks.
    pub timeline: Timeline,
    /// What it was simulated with.
    pub costs: Costs,
    /// What a step takes beside its program.
    pub step_overhead_ns: u64,
    /// How long ranks wait for slow ranks, beyond the timeline, in which all take their mean times.
    pub straggling_ns: u64,
}

impl Prediction {
    /// Simulates a plan's program with costs in nanoseconds, by ranks of which none is slow; `step_overhead_ns` is what a step
    /// takes beside it.
    ///
    /// # Errors
    /// [`CostsError`] if the costs are of another program, or too large.
    pub fn new(plan: &Plan, costs: Costs, step_overhead_ns: u64) -> Result<Self, CostsError> {
        Ok(Self { timeline: simulate(plan.training(), &costs)?, costs, step_overhead_ns, straggling_ns: 0 })
    }

    /// Predicts from costs read off the recorded steps themselves, so that only the structure of the prediction can be wrong.
    ///
    /// # Errors
    /// [`CostsError::TooLong`] if the steps took centuries.
    pub fn from_steps(plan: &Plan, steps: &[Recording<'_>]) -> Result<Self, CostsError> {
        let overheads: Vec<u64> = steps.iter().map(step_overhead_ns).collect();
        Self::new(plan, observed_costs(plan, steps), median(&overheads))
    }

    /// Predicts from costs that were measured apart from the steps, with the waits for slow ranks that they imply.
    ///
    /// # Errors
    /// [`PredictError`] if times add up to more than a `u64` holds.
    pub fn from_costs(plan: &Plan, predicted: Predicted) -> Result<Self, PredictError> {
        let straggling_ns = predicted.straggling_ns(plan, &predicted.cluster(plan))?;
        let prediction = Self::new(plan, predicted.costs, predicted.step_overhead_ns)?;
        Ok(Self { straggling_ns, ..prediction })
    }
}

/// What a step took beside its program. Ranks that start late can make the program longer than any one rank's time.
pub(super) fn step_overhead_ns(recording: &Recording<'_>) -> u64 {
    recording.step_ns().saturating_sub(recording.makespan_ns())
}
