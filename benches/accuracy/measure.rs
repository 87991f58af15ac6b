//! One run: its costs, what they predict, and what a step really takes.

use std::error::Error;
use std::time::Duration;

use benches::Samples;
use pipezero_measure::profile::Profiler;
use pipezero_plan::Plan;
use pipezero_plan::costs::{CostsFile, Source, Step, for_plan};
use pipezero_run::engine::{Engine, StepReport};

use crate::cases::{Case, Family};

/// Steps that warm up.
const NUM_WARM_UP_STEPS: usize = 2;

/// Steps whose median is what was measured. Computing steps differ by a tenth from one to the next on a machine that is
/// shared, waiting ones hardly.
fn num_steps(family: Family) -> usize {
    match family {
        Family::Cpu => 80,
        Family::Timed => 11,
        Family::Level => 7,
    }
}

/// How far the predictions from both profiles may lie apart, of their mean.
const DISTANCE_MAX: f64 = 0.02;

/// How often a run is measured until its profiles agree.
const NUM_ATTEMPTS_MAX: usize = 4;

/// What a run was predicted to take and hold, and what it took and held.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Steps, seconds: by the costs from one half of the recorded steps and from the other.
    pub(crate) predictions_s: [f64; 2],
    /// The median step.
    pub(crate) step: Samples,
    /// Peak bytes of the rank that differs most.
    pub(crate) peak_bytes: [u64; 2],
    /// How often the run was measured again, since its profiles did not agree.
    pub(crate) num_repeats: usize,
}

impl Measured {
    /// Measures runs in turn, step by step, until the profiles of each agree.
    pub(crate) fn of(cases: &[Case]) -> Result<Vec<Self>, Box<dyn Error>> {
        let plans = cases.iter().map(|case| Plan::new(case.run())).collect::<Result<Vec<_>, _>>()?;
        let mut num_repeats = 0;
        loop {
            let measured = in_turn(cases, &plans)?;
            if measured.iter().all(Self::agrees) || num_repeats + 1 == NUM_ATTEMPTS_MAX {
                return Ok(measured.into_iter().map(|measured| Self { num_repeats, ..measured }).collect());
            }
            num_repeats += 1;
        }
    }

    /// Seconds that a step is predicted to take: between both profiles, since each step was measured between them.
    pub(crate) fn predicted_s(&self) -> f64 {
        (self.predictions_s[0] + self.predictions_s[1]) / 2.0
    }

    /// Seconds that a step took.
    pub(crate) fn step_s(&self) -> f64 {
        self.step.median().as_secs_f64()
    }

    /// By which share the prediction is above what was measured.
    pub(crate) fn error(&self) -> f64 {
        self.predicted_s() / self.step_s() - 1.0
    }

    /// How far both predictions lie apart, of their mean.
    pub(crate) fn distance(&self) -> f64 {
        (self.predictions_s[0] - self.predictions_s[1]).abs() / self.predicted_s()
    }

    /// Whether the machine was the same for both.
    pub(crate) fn agrees(&self) -> bool {
        self.distance() <= DISTANCE_MAX
    }

    /// By which share the predicted peak memory is off.
    pub(crate) fn memory_error(&self) -> f64 {
        let [predicted, measured] = self.peak_bytes;
        predicted as f64 / measured as f64 - 1.0
    }
}

/// Runs recorded steps and steps that are measured in turn: before each measured step one is recorded for one profile,
/// after it one for the other. The speed of a shared machine drifts within seconds; so it does for all three, and for all runs.
fn in_turn(cases: &[Case], plans: &[Plan]) -> Result<Vec<Measured>, Box<dyn Error>> {
    let started = cases.iter().zip(plans).map(|(case, plan)| InTurn::start(case, plan));
    let mut runs = started.collect::<Result<Vec<_>, _>>()?;
    for num_measured in 1..=cases.iter().map(|case| num_steps(case.family)).max().unwrap_or(0) {
        runs.iter_mut().try_for_each(|run| run.measure(num_measured))?;
    }
    runs.into_iter().map(InTurn::finish).collect()
}

/// A run whose steps are recorded and measured in turn.
struct InTurn<'a> {
    plan: &'a Plan,
    engine: Engine,
    profilers: [Profiler<'a>; 2],
    times: Vec<Duration>,
    last: StepReport,
}

impl<'a> InTurn<'a> {
    fn start(case: &Case, plan: &'a Plan) -> Result<Self, Box<dyn Error>> {
        let mut engine = Engine::new(plan.clone(), case.source())?;
        let mut last = engine.train_batch()?;
        for _ in 1..NUM_WARM_UP_STEPS {
            last = engine.train_batch()?;
        }
        let mut profilers = [Profiler::new(plan), Profiler::new(plan)];
        profilers[0].add(&engine.train_batch_recorded()?)?;
        Ok(Self { plan, engine, profilers, times: Vec::new(), last })
    }

    fn measure(&mut self, num_measured: usize) -> Result<(), Box<dyn Error>> {
        self.last = self.engine.train_batch()?;
        self.times.push(Duration::from_secs_f64(self.last.step_s));
        Ok(self.profilers[num_measured % 2].add(&self.engine.train_batch_recorded()?)?)
    }

    fn finish(self) -> Result<Measured, Box<dyn Error>> {
        let [before, after] = self.profilers.map(|profiler| predict(profiler, self.plan));
        Ok(Measured {
            predictions_s: [before?, after?],
            step: Samples::new(self.times),
            peak_bytes: peak_bytes(&self.last, self.plan)?,
            num_repeats: 0,
        })
    }
}

/// Seconds of a step, by the costs of a profile that goes through its file.
fn predict(profiler: Profiler<'_>, plan: &Plan) -> Result<f64, Box<dyn Error>> {
    let profile = profiler.finish()?;
    let file = CostsFile::parse("costs", &profile.costs.to_json())?;
    let predicted = for_plan(plan, Source::Measured(&file))?;
    Ok(Step::new(plan, &predicted)?.step_s())
}

/// Planned and measured, of the rank that differs most.
fn peak_bytes(last: &StepReport, plan: &Plan) -> Result<[u64; 2], Box<dyn Error>> {
    let planned = plan.forecast();
    let peaks = last.measured().into_iter().zip(&planned);
    let peaks = peaks.map(|(measured, planned)| [planned.memory.peak, measured.memory.peak]);
    let distance = |[planned, measured]: &[u64; 2]| planned.abs_diff(*measured);
    Ok(peaks.max_by_key(distance).ok_or("a grid has a rank")?)
}
