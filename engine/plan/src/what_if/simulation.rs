//! A step of a plan, simulated with measured or calculated costs, as the plan is or on a cluster that differs.

use pipezero_schedule::simulate::cluster::{Cluster, Cores};
use pipezero_schedule::simulate::{CriticalPath, MemoryCurve, MemoryError, critical_path, memory};

use super::changes::WhatIf;
use super::cluster_step::ClusterStep;
use super::shared_cores::{computes, shared_cores, unshared};
use super::simulation_error::SimulationError;
use super::utilisation::Utilisation;
use crate::Plan;
use crate::costs::{DeviceSpec, PredictError, Predicted, Source, Step, for_plan, memory_costs, peak_of_rank};

/// A simulated step of a plan.
#[derive(Clone, Debug)]
pub struct Simulation<'a> {
    plan: &'a Plan,
    predicted: Predicted,
    /// Of one data rank: all are alike, or else the slowest.
    step: Step,
    /// Of all ranks.
    bubble_rate: f64,
    /// Where times are calculated: a rank's peak for matrix products, where it is known, and the memory of its device.
    peak_flops_per_s: Option<f64>,
    device_bytes: Option<u64>,
    /// Every data rank separately, where they are not alike.
    changed: Option<Box<Changed>>,
}

/// A step on a cluster that differs, beside the step on one that does not.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The cluster that was simulated.
    pub cluster: Cluster,
    /// The step on it.
    pub step: ClusterStep,
    /// The slowest data rank's step on a cluster whose ranks are alike and share nothing.
    pub without: Step,
}

impl Changed {
    /// How many times as long the step takes as without the changes.
    pub fn times(&self) -> f64 {
        let without_s = self.without.step_s();
        if without_s > 0.0 { self.step.slowest().step_s() / without_s } else { 1.0 }
    }
}

impl<'a> Simulation<'a> {
    /// Simulates a step; with `what_if` every data rank separately, and once more without the changes, to compare.
    ///
    /// # Errors
    /// [`SimulationError`].
    pub fn new(
        plan: &'a Plan,
        source: Source<'_>,
        what_if: Option<&WhatIf>,
    ) -> Result<Self, SimulationError> {
        let asks_for_cores = what_if.is_some_and(|what_if| what_if.cores.is_some());
        let cores = if asks_for_cores { None } else { shared_cores(plan, source) };
        let predicted = predicted(plan, source, asks_for_cores, cores)?;
        let (peak_flops_per_s, device_bytes) = match source {
            Source::Measured(_) => (None, None),
            Source::Analytic(device) => (peak_of_rank(plan, device), device.memory_bytes),
        };
        let alike = Cluster { cores, ..predicted.cluster(plan) };
        let Some(what_if) = what_if else {
            let (step, bubble_rate) = match cores {
                None => {
                    let step = Step::new(plan, &predicted).map_err(SimulationError::Step)?;
                    let bubble_rate = step.bubble_rate();
                    (step, bubble_rate)
                }
                Some(_) => {
                    let all = cluster_step(plan, &predicted, &alike)?;
                    (all.slowest().clone(), all.bubble_rate())
                }
            };
            return Ok(Self {
                plan,
                predicted,
                step,
                bubble_rate,
                peak_flops_per_s,
                device_bytes,
                changed: None,
            });
        };
        let cluster = what_if.applied_to(alike.clone(), plan.grid().world_size(), computes(plan, source))?;
        let simulate = |cluster: &Cluster| cluster_step(plan, &predicted, cluster);
        let (step, without) = (simulate(&cluster)?, simulate(&alike)?.slowest().clone());
        let (slowest, bubble_rate) = (step.slowest().clone(), step.bubble_rate());
        let changed = Changed { cluster, step, without };
        let changed = Some(Box::new(changed));
        Ok(Self { plan, predicted, step: slowest, bubble_rate, peak_flops_per_s, device_bytes, changed })
    }

    /// The plan.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// What everything costs, and where that comes from.
    pub fn predicted(&self) -> &Predicted {
        &self.predicted
    }

    /// The cluster that differs and the step on it, if there was a "what if".
    pub fn changed(&self) -> Option<&Changed> {
        self.changed.as_deref()
    }

    /// The step of one data rank: the slowest, where they differ.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// The share of the makespan in which ranks do not compute, mean over all world ranks.
    pub fn bubble_rate(&self) -> f64 {
        self.bubble_rate
    }

    /// `[pipeline rank]`: the most micro-batches in flight until their input gradient, in activations of a whole rank.
    pub fn peak_in_flight(&self) -> Vec<f64> {
        let virtual_stages = self.plan.run().parallel.virtual_stages as f64;
        let program = self.plan.training();
        let in_flight = |rank| program.high_water(rank).activations_until_input as f64;
        program.ranks().map(|rank| in_flight(rank) / virtual_stages).collect()
    }

    /// What each rank achieves, and how much memory is left.
    pub fn utilisation(&self) -> Utilisation {
        let limits = [self.plan.run().memory_bytes, self.device_bytes];
        Utilisation {
            num_ranks: self.plan.grid().world_size(),
            step_s: self.step.step_s(),
            tokens: self.step.tokens,
            model_flops: self.plan.step_flops(),
            peak_flops_per_s: self.peak_flops_per_s,
            peak_bytes: self.plan.fullest_rank().1,
            memory_bytes: limits.into_iter().flatten().min(),
        }
    }

    /// What the makespan of [`Simulation::step`] consists of.
    pub fn critical_path(&self) -> CriticalPath {
        critical_path(self.plan.training(), &self.predicted.costs, &self.step().timeline)
    }
}

/// `[pipeline rank]`: the most bytes that hold something at one time in a step; all else that is allocated waits for its use.
///
/// # Errors
/// [`MemoryError`] if the step does not belong to the plan.
pub fn in_use_bytes(plan: &Plan, step: &Step) -> Result<Vec<u64>, MemoryError> {
    Ok(memory_curves(plan, step)?.iter().map(|curve| curve.peak().1.total()).collect())
}

/// `[pipeline rank]`: the bytes that a rank holds over a step.
///
/// # Errors
/// [`MemoryError`] if the step does not belong to the plan.
pub fn memory_curves(plan: &Plan, step: &Step) -> Result<Vec<MemoryCurve>, MemoryError> {
    memory(plan.training(), &step.timeline, &memory_costs(plan))
}

/// A step of all data ranks.
fn cluster_step(
    plan: &Plan,
    predicted: &Predicted,
    cluster: &Cluster,
) -> Result<ClusterStep, SimulationError> {
    ClusterStep::new(plan, predicted, cluster)
        .map_err(|error| SimulationError::Step(PredictError::Cluster(error)))
}

/// Costs of ranks that are alone on their cores where the simulator shares these out.
fn predicted(
    plan: &Plan,
    source: Source<'_>,
    asks_for_cores: bool,
    cores: Option<Cores>,
) -> Result<Predicted, SimulationError> {
    let predicted = match source {
        Source::Analytic(device) if asks_for_cores => {
            let device = DeviceSpec { cores: None, ..device.clone() };
            for_plan(plan, Source::Analytic(&device))
        }
        Source::Analytic(device) if cores.is_some() => for_plan(plan, Source::Analytic(&unshared(device))),
        _ => for_plan(plan, source),
    };
    let mut predicted = predicted.map_err(SimulationError::Costs)?;
    if let Source::Analytic(DeviceSpec { cores: Some(num_cores), .. }) = source
        && !asks_for_cores
        && plan.run().model.facts().given_times.is_none()
    {
        let (cores, ranks) = (counted(*num_cores, "core"), counted(plan.grid().world_size(), "rank"));
        predicted.description += &format!(", {cores} for {ranks}");
    }
    Ok(predicted)
}

/// `1 core`, `2 cores`
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
