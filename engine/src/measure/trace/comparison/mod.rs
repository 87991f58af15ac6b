//! A prediction laid over what happened, from the whole step down to single instructions.
//!
//! Prediction and measurement are of the same program, so instruction for instruction they can be told apart without any
//! guess at what corresponds to what.

mod kinds;
mod path;
mod ranks;

use pipezero_schedule::simulate::{Costs, CostsError, Timeline, simulate};
use serde::Serialize;

pub use kinds::{ComparedKind, Part};
pub use path::Parting;
#[cfg(test)]
pub(super) use path::critical;
pub use ranks::{ComparedBubble, ComparedBytes, ComparedRank};

use super::observed::observed_costs;
use super::recorded::Recorded;
use crate::plan::Plan;

/// Partings that are told of.
const NUM_PARTINGS: usize = 10;

/// A time as it was predicted and as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Nanoseconds.
    pub predicted_ns: u64,
    /// Nanoseconds.
    pub measured_ns: u64,
    /// `predicted / measured - 1`; null where nothing was measured to take time.
    pub error: Option<f64>,
}

impl Compared {
    /// Both times.
    pub(crate) fn new(predicted_ns: u64, measured_ns: u64) -> Self {
        let error = (measured_ns > 0).then(|| predicted_ns as f64 / measured_ns as f64 - 1.0);
        Self { predicted_ns, measured_ns, error }
    }
}

/// What a step is predicted to take.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// When each instruction starts and ends; one timeline for all data ranks.
    pub timeline: Timeline,
    /// What it was played with.
    pub costs: Costs,
    /// What a step takes beside its program.
    pub step_overhead_ns: u64,
    /// What ranks wait for slow ones beyond the timeline, in which all take their mean times.
    pub straggling_ns: u64,
}

impl Prediction {
    /// Plays a plan's program with costs in nanoseconds, by ranks of which none is slow; `step_overhead_ns` is what a step
    /// takes beside it.
    ///
    /// # Errors
    /// [`CostsError`] if the costs are of another program, or too large.
    pub fn new(plan: &Plan, costs: Costs, step_overhead_ns: u64) -> Result<Self, CostsError> {
        Ok(Self { timeline: simulate(plan.training(), &costs)?, costs, step_overhead_ns, straggling_ns: 0 })
    }

    /// From costs that the recorded steps themselves had: what is wrong with it is its structure alone.
    ///
    /// # Errors
    /// [`CostsError::TooLong`] if the steps took centuries.
    pub fn from_steps(plan: &Plan, steps: &[Recorded]) -> Result<Self, CostsError> {
        let overheads: Vec<u64> = steps.iter().map(step_overhead_ns).collect();
        Self::new(plan, observed_costs(plan, steps), super::observed::median(&overheads))
    }
}

/// A prediction beside what happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The steps that were recorded.
    pub steps: Vec<u64>,
    /// The one of them that took the middle time; all that was measured is of it.
    pub median_step: u64,
    /// The whole step.
    pub step: Compared,
    /// Its program: from the first start of an instruction on any rank to the last end.
    pub program: Compared,
    /// What of it ranks are predicted to wait for slow ones, beyond the program that is predicted. What was measured of
    /// the program contains it.
    pub straggling_ns: u64,
    /// What it takes beside its program: reading tokens, starting and collecting the ranks.
    pub step_overhead: Compared,
    /// By world rank.
    pub ranks: Vec<ComparedRank>,
    /// By kind of instruction and part of it.
    pub kinds: Vec<ComparedKind>,
    /// Parts of the measured step's critical path: an instruction is two of them if what it brings was waited for too.
    pub path_parts: usize,
    /// The instructions of that path where the two part most, in the order of time.
    pub partings: Vec<Parting>,
}

impl Comparison {
    /// Lays a prediction over the recorded step of middle length; `measured_peak_bytes` are by world rank.
    ///
    /// # Panics
    /// If there is no step, or it or the prediction is of another plan.
    pub fn new(
        plan: &Plan,
        steps: &[Recorded],
        prediction: &Prediction,
        measured_peak_bytes: &[u64],
    ) -> Self {
        let recorded = median_step(steps);
        let path = path::critical(plan.training(), recorded, &prediction.timeline);
        let predicted_ns = prediction.timeline.makespan();
        let (makespan_ns, overhead_ns) = (recorded.makespan_ns(), step_overhead_ns(recorded));
        Self {
            steps: steps.iter().map(Recorded::step).collect(),
            median_step: recorded.step(),
            step: Compared::new(
                predicted_ns
                    .saturating_add(prediction.straggling_ns)
                    .saturating_add(prediction.step_overhead_ns),
                makespan_ns + overhead_ns,
            ),
            program: Compared::new(predicted_ns, makespan_ns),
            straggling_ns: prediction.straggling_ns,
            step_overhead: Compared::new(prediction.step_overhead_ns, overhead_ns),
            ranks: ranks::compare(plan, recorded, prediction, measured_peak_bytes),
            kinds: kinds::compare(plan.training(), recorded, prediction),
            path_parts: path.len(),
            partings: path::largest(path, NUM_PARTINGS),
        }
    }
}

/// The step of middle length; of an even number the longer one of the two in the middle.
///
/// # Panics
/// If there is none.
pub fn median_step(steps: &[Recorded]) -> &Recorded {
    let mut sorted: Vec<&Recorded> = steps.iter().collect();
    sorted.sort_by_key(|recorded| recorded.length());
    sorted[sorted.len() / 2]
}

/// What a step took beside its program. Ranks that start late can make the program longer than any one rank's time.
fn step_overhead_ns(recorded: &Recorded) -> u64 {
    recorded.step_ns().saturating_sub(recorded.makespan_ns())
}
