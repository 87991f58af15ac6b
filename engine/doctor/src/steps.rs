//! The run itself for a few steps, with tokens that are drawn: what it holds and sends beside its plan, and how long it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_comm::CommError;
use pipezero_config::DeviceName;
use pipezero_files::host::available_bytes;
use pipezero_measure::profile::{ProfileError, Profiler, check_steps};
use pipezero_plan::costs::DeviceSpec;
use pipezero_plan::{Plan, RankMemory, Traffic};
use pipezero_run::engine::{Engine, EngineError, MeasuredRank, StepReport};
use pipezero_run::world::{connect_first, world_spec};
use serde::Serialize;

use super::hosts::{ProcessFacts, cores_of_all};
use super::lost::{Lost, survived};
use super::memories::memories;
use super::team::Team;
use super::text::text;
use super::tokens::DrawnTokens;

/// How long this part may take.
const TIME_MAX: Duration = Duration::from_secs(45);
/// How long a wait may take.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Steps that are timed, at most, after the first, which touches memory for the first time.
const NUM_TIMED_MAX: usize = 12;
/// What a CPU may take to draw a weight, and to touch its state.
const DRAW_NS: f64 = 30.0;

/// A rank's figures beside those of its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankFigures {
    /// The world rank.
    pub(crate) rank: usize,
    /// Bytes by category: planned, measured.
    pub memory: [RankMemory; 2],
    /// Calls and bytes of a step: planned, measured.
    pub traffic: [Traffic; 2],
}

/// Steps that were done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepFacts {
    /// Every rank.
    pub ranks: Vec<RankFigures>,
    /// The first step, seconds.
    pub first_s: f64,
    /// Those that were timed, ascending, seconds.
    pub timed_s: Vec<f64>,
    /// What is simulated from the costs of these steps.
    pub simulated_s: Option<f64>,
    /// The loss of the last.
    pub loss: Option<f64>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFacts {
    /// Steps of the run; why there are none.
    pub steps: Result<StepFacts, String>,
    /// Whether there was no time for them.
    pub(crate) is_too_long: bool,
    /// For each process what is wrong with the text, if anything is.
    pub(crate) text: Vec<Result<String, String>>,
}

/// Runs as many steps as there is time for.
pub(super) fn look(team: &Team, plan: &Plan, processes: &[ProcessFacts]) -> Result<RunFacts, Lost> {
    let text = team.gather(&text(plan))?;
    let without_steps =
        |why: String, is_too_long| RunFacts { steps: Err(why), is_too_long, text: text.clone() };
    let own = Engine::check_host(plan, team.world()).map_err(|error| error.to_string());
    if let Some(why) = first_error(team, own.as_ref().err())? {
        return Ok(without_steps(why, false));
    }
    // Each process has asked for its own ranks alone.
    if let Some(memory) = memories(plan, processes).iter().find(|memory| !memory.is_enough()) {
        return Ok(without_steps(
            format!("the run does not fit {}: {}", memory.name(), memory.figures()),
            false,
        ));
    }
    let time = team.time_for(TIME_MAX);
    let expected_s = expected_s(plan, processes);
    let is_too_long = team.decide(&(expected_s > time.as_secs_f64()))?;
    if is_too_long {
        let seconds = time.as_secs_f64();
        let why =
            format!("a step and drawing weights are estimated at {expected_s:.0} s; {seconds:.0} s are left");
        return Ok(without_steps(why, true));
    }
    let own = match done(team, plan, time) {
        Ok(steps) => Ok(steps),
        Err(ProfileError::Engine(error)) => Err(survived(error)?),
        Err(error) => Err(error.to_string()),
    };
    // All ranks stop together, and the report that all have is the cause.
    let steps = match (own.clone(), first_error(team, own.as_ref().err())?) {
        (Ok(steps), None) => Ok(steps),
        (_, Some(error)) | (Err(error), None) => Err(error),
    };
    Ok(RunFacts { steps, is_too_long, text })
}

/// The error of the first process that has one, in the process of rank 0 and in all others.
fn first_error(team: &Team, own: Option<&String>) -> Result<Option<String>, CommError> {
    let errors: Vec<Option<String>> = team.gather(&own.cloned())?;
    team.decide(&errors.into_iter().flatten().next())
}

/// About how long a step and what comes before it take on CPUs, by their data sheets: enough to tell minutes from seconds.
fn expected_s(plan: &Plan, processes: &[ProcessFacts]) -> f64 {
    if plan.run().device != DeviceName::Cpu || !plan.run().model.learns() {
        return 0.0;
    }
    let cores = cores_of_all(processes).max(1) as f64;
    let drawn_s = 1e-9 * DRAW_NS * plan.num_parameters() as f64;
    // Few models reach half of what a data sheet promises.
    2.0 * plan.step_flops() as f64 / (DeviceSpec::this_cpu().f32_flops_per_s * cores) + drawn_s
}

/// The steps of this process; those of all in the first.
fn done(team: &Team, plan: &Plan, time: Duration) -> Result<StepFacts, ProfileError> {
    let begun = Instant::now();
    let timeout = plan.run().comm.timeout.min(WAIT_MAX);
    let world = connect_first(&world_spec(plan), plan.grid().world_size(), timeout, Some(team.world()))
        .map_err(EngineError::from)?;
    let world = world.expect("the world is of all ranks");
    let source = Arc::new(DrawnTokens::of(plan));
    let mut engine = Engine::in_world(plan.clone(), source, world)?;
    let is_recorded =
        check_steps(plan, NUM_TIMED_MAX as u64, available_bytes().map(|bytes| bytes / 4)).is_ok();
    let mut profiler = (team.is_first() && is_recorded).then(|| Profiler::new(plan));
    let (mut first_s, mut timed_s) = (0.0, Vec::new());
    let report = loop {
        let step = Instant::now();
        // All processes record, or none does.
        let report = engine.train_batch_recorded()?;
        if report.step == 1 {
            first_s = report.step_s;
        } else {
            timed_s.push(report.step_s);
            if let Some(profiler) = profiler.as_mut().filter(|_| !report.skipped) {
                profiler.add(&report)?;
            }
        }
        let is_late = timed_s.len() == NUM_TIMED_MAX || begun.elapsed() + step.elapsed() > time;
        if engine.in_any_process(team.is_first() && is_late)? {
            break report;
        }
    };
    // There was no time for another.
    if timed_s.is_empty() {
        timed_s.push(first_s);
    }
    timed_s.sort_by(f64::total_cmp);
    let profile = profiler.and_then(|profiler| profiler.finish().ok());
    let simulated_s = profile.and_then(|profile| profile.predicted_step_s(plan).ok());
    Ok(StepFacts { ranks: figures(plan, &report), first_s, timed_s, simulated_s, loss: report.loss })
}

/// What each rank that a report knows held and sent.
fn figures(plan: &Plan, report: &StepReport) -> Vec<RankFigures> {
    let forecast = plan.forecast();
    let of_rank = |measured: MeasuredRank| {
        let planned = &forecast[measured.rank];
        RankFigures {
            rank: measured.rank,
            memory: [planned.memory, measured.memory],
            traffic: [planned.traffic, measured.traffic],
        }
    };
    report.measured().into_iter().map(of_rank).collect()
}
