//! One run: its costs before and after, what they predict, and what a step really takes.

use std::error::Error;
use std::time::Duration;

use benches::Samples;
use pipezero::costs::{CostsFile, Source, for_plan};
use pipezero::engine::Engine;
use pipezero::plan::Plan;
use pipezero::profile::{ProfileOptions, profile};
use pipezero::schedule::simulate::simulate;

use crate::cases::Case;

/// Steps that are recorded for costs, and steps whose median is what was measured; before each, two that warm up.
const OPTIONS: ProfileOptions = ProfileOptions { num_warm_up_steps: 2, num_steps: 8 };
const NUM_STEPS: usize = 11;
const NUM_WARM_UP_STEPS: usize = 2;

/// How far the predictions from both profiles may lie apart, of their mean.
const DISTANCE_MAX: f64 = 0.02;

/// How often a run is measured until its profiles agree.
const NUM_ATTEMPTS_MAX: usize = 4;

/// What a run was predicted to take and hold, and what it took and held.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Steps, seconds: by the costs from before and from after.
    pub(crate) predictions_s: [f64; 2],
    /// The median step.
    pub(crate) step: Samples,
    /// Peak bytes of the rank that differs most.
    pub(crate) peak_bytes: [u64; 2],
    /// How often the run was measured again, since its profiles did not agree.
    pub(crate) num_repeats: usize,
}

impl Measured {
    /// Measures a run until its profiles agree.
    pub(crate) fn of(case: Case) -> Result<Self, Box<dyn Error>> {
        let plan = Plan::new(case.run())?;
        let mut num_repeats = 0;
        loop {
            let before = predict(case, &plan)?;
            let (step, peak_bytes) = steps(case, &plan)?;
            let after = predict(case, &plan)?;
            let measured = Self { predictions_s: [before, after], step, peak_bytes, num_repeats };
            if measured.agrees() || num_repeats + 1 == NUM_ATTEMPTS_MAX {
                return Ok(measured);
            }
            num_repeats += 1;
        }
    }

    /// Seconds that a step is predicted to take: between both profiles, since it was measured between them.
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

    /// Whether the machine was the same before and after.
    pub(crate) fn agrees(&self) -> bool {
        self.distance() <= DISTANCE_MAX
    }

    /// By which share the predicted peak memory is off.
    pub(crate) fn memory_error(&self) -> f64 {
        let [predicted, measured] = self.peak_bytes;
        predicted as f64 / measured as f64 - 1.0
    }
}

/// Seconds of a step, by the costs of a profile that is taken now and goes through its file.
fn predict(case: Case, plan: &Plan) -> Result<f64, Box<dyn Error>> {
    let profile = profile(plan.clone(), case.source(), OPTIONS, &mut |_| {})?;
    let file = CostsFile::parse("costs", &profile.costs.to_json())?;
    let predicted = for_plan(plan, Source::Measured(&file))?;
    let timeline = simulate(plan.training(), &predicted.costs)?;
    Ok((timeline.makespan() + predicted.step_overhead_ns) as f64 / 1e9)
}

/// Steps of the run, and the peak memory that was planned and measured.
fn steps(case: Case, plan: &Plan) -> Result<(Samples, [u64; 2]), Box<dyn Error>> {
    let mut engine = Engine::new(plan.clone(), case.source())?;
    for _ in 0..NUM_WARM_UP_STEPS {
        engine.train_batch()?;
    }
    let mut times = Vec::new();
    let mut last = None;
    for _ in 0..NUM_STEPS {
        let report = engine.train_batch()?;
        times.push(Duration::from_secs_f64(report.step_s));
        last = Some(report);
    }
    let last = last.ok_or("no step was measured")?;
    let planned = plan.forecast();
    let peaks = engine.measured(&last).into_iter().zip(&planned);
    let peaks = peaks.map(|(measured, planned)| [planned.memory.peak, measured.memory.peak]);
    let distance = |[planned, measured]: &[u64; 2]| planned.abs_diff(*measured);
    Ok((Samples::new(times), peaks.max_by_key(distance).ok_or("a grid has a rank")?))
}
