//! Costs measured on this machine: a run is recorded for some steps and reduced to what its parts take.
//!
//! ```text
//! Engine::recording -> Recording -> typical steps -> sums by unit and by message -> CostsFile
//! ```
//!
//! It is the run itself that is measured, with all its ranks, threads and links: what a unit takes depends on what runs
//! beside it, and no benchmark of a part alone would show that. Nothing is fitted to the time of a step: each figure is the mean
//! of what it names, over the typical steps, the micro-batches and the data ranks, so that figures add up to what was
//! measured, and a program of the same parts can be predicted from them. By how much ranks were off these means in each step is
//! kept too: where ranks wait for each other, the mean step is longer than a step of means. The one thing that no step shows is
//! what messages of other sizes cost; they are probed after the steps.

mod delays;
mod error;
mod facts;
mod into_file;
mod joint;
mod kernels;
mod limit;
mod mean;
mod options;
mod probe;
mod slowness;
mod steps;
mod sums;
mod totals;
mod typical;

use std::sync::Arc;

use pipezero_plan::Plan;
use pipezero_plan::costs::{CostsFile, PredictError, Source, Step, for_plan};
use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, EngineError, StepReport};
use pipezero_run::world::{World, world_of};

use crate::recording::Recording;

pub use error::ProfileError;
pub use limit::{TooManySteps, check_steps};

pub use self::kernels::KernelStep;
pub use self::options::ProfileOptions;

use self::facts::Facts;

/// A step of a profile that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watched {
    /// Steps that have ended.
    pub num_done: u64,
    /// Steps to run, those before the recording included.
    pub num_steps: u64,
    /// What the last took, seconds.
    pub step_s: f64,
}

/// Measured costs, and what a step took that they were taken from.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The costs.
    pub costs: CostsFile,
    /// Mean of the typical steps, seconds.
    pub step_s: f64,
    /// Steps that count.
    pub num_steps: usize,
    /// The kernels of a step, if they were asked for and the devices of rank 0's process time them.
    pub kernels: Option<KernelStep>,
}

impl Profile {
    /// What a step of the plan that was measured takes when it is simulated from the costs, seconds.
    ///
    /// # Errors
    /// [`PredictError`] if times add up to more than a `u64` holds.
    pub fn predicted_step_s(&self, plan: &Plan) -> Result<f64, PredictError> {
        let predicted = for_plan(plan, Source::Measured(&self.costs))?;
        Ok(Step::new(plan, &predicted)?.step_s())
    }
}

/// Runs a plan on batches of `source` and measures what its parts take. `watch` is called after every step. Then the same ranks
/// send messages of other sizes than the run's, for some seconds at most.
///
/// What happened in the recorded steps is kept until the last has ended: [`check_steps`]. With [`ProfileOptions::times_kernels`] the kernels of one
/// more step are timed.
///
/// # Errors
/// [`ProfileError::NoSteps`] and [`ProfileError::KernelsOfCpu`] before anything starts; when the ranks cannot be started or stop; when fp16 leaves out step after
/// step.
pub fn profile(
    plan: Plan,
    source: Arc<dyn BatchSource>,
    options: ProfileOptions,
    watch: &mut dyn FnMut(Watched),
) -> Result<Profile, ProfileError> {
    let world = world_of(&plan).map_err(EngineError::from)?;
    let profile = profile_in(plan, source, options, world, watch)?;
    Ok(profile.expect("one process has all ranks, rank 0 too"))
}

/// As [`profile`], for the ranks of this process; the process of rank 0 gets the costs.
///
/// # Errors
/// As [`profile`].
pub fn profile_in(
    plan: Plan,
    source: Arc<dyn BatchSource>,
    options: ProfileOptions,
    world: Arc<dyn World>,
    watch: &mut dyn FnMut(Watched),
) -> Result<Option<Profile>, ProfileError> {
    if options.num_steps == 0 {
        return Err(ProfileError::NoSteps);
    }
    if options.times_kernels && !plan.run().device.has_own_memory() {
        return Err(ProfileError::KernelsOfCpu);
    }
    let mut engine = Engine::in_world(plan.clone(), source, world)?;
    let mut profiler = engine.has_rank_0().then(|| Profiler::new(&plan));
    steps::record(profiler.as_mut(), &mut engine, options, watch)?;
    let kernels = if options.times_kernels { kernels::timed(&mut engine)? } else { None };
    let Some(profiler) = profiler else {
        engine.follow_probes()?;
        return Ok(None);
    };
    let mut profile = profiler.finish()?;
    profile.kernels = kernels;
    profile.costs.host.gpus = plan.run().device.has_own_memory().then(|| engine.device_name());
    probe::add_sizes(&mut engine, &Facts::new(&plan), &mut profile.costs, probe::TIME)?;
    engine.end_probes()?;
    Ok(Some(profile))
}

/// Recorded steps of a plan, from which its costs are taken: [`profile`] fills one, and so can a program that runs the engine for
/// other ends and records some of its steps ([`Engine::train_batch_recorded`]).
///
/// [`Engine::train_batch_recorded`]: pipezero_run::Engine::train_batch_recorded
#[derive(Clone, Debug)]
pub struct Profiler<'a> {
    plan: &'a Plan,
    recorded: Vec<Recording<'a>>,
}

impl<'a> Profiler<'a> {
    /// One without steps.
    pub fn new(plan: &'a Plan) -> Self {
        Self { plan, recorded: Vec::new() }
    }

    /// Adds a recorded step of the plan.
    ///
    /// # Errors
    /// [`ProfileError::Recorded`] if the step was not recorded, or only in part, as in a process without rank 0.
    ///
    /// # Panics
    /// If it is of another plan.
    pub fn add(&mut self, report: &StepReport) -> Result<(), ProfileError> {
        let recording = Recording::new(self.plan, report);
        self.recorded.push(recording.map_err(|source| ProfileError::Recorded { step: report.step, source })?);
        Ok(())
    }

    /// The costs of its typical steps.
    ///
    /// # Errors
    /// [`ProfileError::NoSteps`] if none was added.
    pub fn finish(self) -> Result<Profile, ProfileError> {
        if self.recorded.is_empty() {
            return Err(ProfileError::NoSteps);
        }
        let facts = Facts::new(self.plan);
        let steps = typical::typical(self.recorded, Recording::step_ns);
        let step_s = steps.iter().map(|step| step.step_ns() as f64 / 1e9).sum::<f64>() / steps.len() as f64;
        let costs = into_file::costs_file(&facts, &steps);
        Ok(Profile { costs, step_s, num_steps: steps.len(), kernels: None })
    }
}

#[cfg(test)]
mod tests;
