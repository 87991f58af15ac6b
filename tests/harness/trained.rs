//! Trains a run and holds what came out, to the bit.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pipezero_config::Run;
use pipezero_models::Device;
use pipezero_plan::{Plan, RankForecast};
use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, EngineError, EngineKind, LossPart, MeasuredRank, StepReport};
use pipezero_train::{EvalLine, Observer, RunDir, StepLine, Summary, Training};
use safetensors::SafeTensors;
use serde_json::json;

use crate::{GRADIENT_CLIPPING, Mask, RandomBatches};

/// A model's parameters by name.
pub type Weights = BTreeMap<String, Vec<f32>>;

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The loss of each step.
    pub losses: Vec<f64>,
    /// The gradient norm of each step.
    pub norms: Vec<f64>,
    /// The weights after the last step, by parameter name.
    pub weights: Weights,
    /// The last step's report.
    pub last: StepReport,
}

impl Trained {
    /// Gradients were clipped at every step.
    ///
    /// # Panics
    /// If a norm is not above the limit.
    pub fn assert_clipped(&self, case: &str) {
        let is_clipped = |norm: &f64| *norm > GRADIENT_CLIPPING;
        assert!(self.norms.iter().all(is_clipped), "a step of {case} is not clipped: {:?}", self.norms);
    }
}

/// Trains a run on random batches for its number of steps.
pub fn train(run: Run, mask: Mask) -> Trained {
    train_plan(Plan::even_if_refused(run).expect("a valid run"), mask)
}

/// Trains a plan on random batches for its number of steps.
pub fn train_plan(plan: Plan, mask: Mask) -> Trained {
    let source = Arc::new(RandomBatches::for_plan(&plan, mask));
    train_with(plan, source, |_| {})
}

/// Trains a plan on these batches for its number of steps, and does something with the engine before each of them.
pub fn train_with(
    plan: Plan,
    source: Arc<dyn BatchSource>,
    mut before_step: impl FnMut(&mut Engine),
) -> Trained {
    let steps = plan.run().steps;
    let mut engine = Engine::new(plan, source).expect("ranks start");
    let step = |_| {
        before_step(&mut engine);
        engine.train_batch().expect("a step")
    };
    let reports = (0..steps).map(step).collect();
    trained(reports, engine)
}

/// As [`train`], with all ranks on a device.
///
/// # Errors
/// Where a step fails.
pub fn train_on(device: Arc<dyn Device>, run: Run, mask: Mask) -> Result<Trained, EngineError> {
    train_on_devices(&[device], run, mask)
}

/// The same with ranks on these devices in turn.
///
/// # Errors
/// Where a step fails.
pub fn train_on_devices(devices: &[Arc<dyn Device>], run: Run, mask: Mask) -> Result<Trained, EngineError> {
    let (plan, source) = plan_and_batches(run, mask);
    train_plan_on(devices, plan, source)
}

/// The same with a plan and batches.
///
/// # Errors
/// Where a step fails.
pub fn train_plan_on(
    devices: &[Arc<dyn Device>],
    plan: Plan,
    source: Arc<dyn BatchSource>,
) -> Result<Trained, EngineError> {
    let steps = plan.run().steps;
    let mut engine = Engine::on_devices(plan, source, devices)?;
    let reports = (0..steps).map(|_| engine.train_batch()).collect::<Result<_, _>>()?;
    Ok(trained(reports, engine))
}

fn trained(reports: Vec<StepReport>, mut engine: Engine) -> Trained {
    Trained {
        losses: reports.iter().map(|report| report.loss.unwrap_or(0.0)).collect(),
        norms: reports.iter().map(|report| report.gradient_norm).collect(),
        weights: weights_of(&mut engine),
        last: reports.into_iter().last().expect("at least one step"),
    }
}

/// Keeps the line of every step.
#[derive(Default)]
struct Lines(Vec<StepLine>);

impl Observer for Lines {
    fn step(&mut self, line: &StepLine) {
        self.0.push(line.clone());
    }

    fn evaluation(&mut self, _: &EvalLine) {}
}

/// Trains as the command line does, into a new folder; what it wrote there, its summary and the line of every step.
pub fn train_into(folder: &Path, plan: Plan) -> (RunDir, Summary, Vec<StepLine>) {
    let directory = RunDir::create(folder, false).expect("a new folder");
    let training = Training::new(plan).expect("the ranks start");
    let mut lines = Lines::default();
    let summary = training.run(&directory, &AtomicBool::new(false), &mut lines).expect("the run ends well");
    (directory, summary, lines.0)
}

/// A run's plan and its random batches: what an engine is made of.
pub fn plan_and_batches(run: Run, mask: Mask) -> (Plan, Arc<dyn BatchSource>) {
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let source = Arc::new(RandomBatches::for_plan(&plan, mask));
    (plan, source)
}

/// An engine of a run with random batches, started by one of [`Engine`]'s constructors.
pub fn started<K: EngineKind>(
    start: impl FnOnce(Plan, Arc<dyn BatchSource>) -> Result<Engine<K>, EngineError>,
    run: Run,
    mask: Mask,
) -> Engine<K> {
    let (plan, source) = plan_and_batches(run, mask);
    start(plan, source).expect("ranks start")
}

/// The weights that an engine saves.
pub fn weights_of<K: EngineKind>(engine: &mut Engine<K>) -> Weights {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    engine.save(&path).expect("weights are saved");
    weights_in(&path)
}

/// The weights of a file that an engine has saved.
pub fn weights_in(path: &Path) -> Weights {
    read_weights(&std::fs::read(path).expect("weights are there"))
}

fn read_weights(bytes: &[u8]) -> Weights {
    let file = SafeTensors::deserialize(bytes).expect("a safetensors file");
    let floats =
        |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    file.tensors().into_iter().map(|(name, view)| (name, floats(view.data()))).collect()
}

/// Ranks hold and send what is planned: every category and the peak to the byte, in the shape of `plan --json`.
///
/// # Panics
/// With the first rank that differs.
pub fn assert_as_planned(measured: &[MeasuredRank], planned: &[RankForecast], case: &str) {
    for (measured, planned) in measured.iter().zip(planned) {
        assert_eq!(json!(measured.memory), json!(planned.memory), "rank {} of {case}", planned.rank);
        assert_eq!(measured.traffic, planned.traffic, "rank {} of {case}", planned.rank);
    }
}

/// Losses, what the last of them reports beside its value, norms and weights are the same to the bit.
///
/// # Panics
/// With the first difference.
pub fn assert_bit_identical(actual: &Trained, reference: &Trained, case: &str) {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let part = |part: &LossPart| (part.name, part.mean.map(f64::to_bits), part.num_targets);
    let parts = |of: &Trained| of.last.loss_parts.iter().map(part).collect::<Vec<_>>();
    assert_eq!(bits(&actual.losses), bits(&reference.losses), "losses of {case}");
    assert_eq!(bits(&actual.norms), bits(&reference.norms), "gradient norms of {case}");
    assert_eq!(parts(actual), parts(reference), "parts of the last loss of {case}");
    assert_same_weights(&actual.weights, &reference.weights, case);
}

/// Weights are the same to the bit.
///
/// # Panics
/// With the first parameter that differs.
pub fn assert_same_weights(actual: &Weights, reference: &Weights, case: &str) {
    assert!(actual.keys().eq(reference.keys()), "parameters of {case}");
    for (name, values) in actual {
        assert_eq!(values.len(), reference[name].len(), "elements of `{name}` in {case}");
        let differing = values.iter().zip(&reference[name]).filter(|(a, b)| a.to_bits() != b.to_bits());
        assert_eq!(differing.count(), 0, "elements of `{name}` that differ in {case}");
    }
}

/// Losses and weights agree within `tolerance`, as max |a - b| / max |b| per tensor.
///
/// # Panics
/// With the tensor that differs most.
pub fn assert_close(actual: &Trained, reference: &Trained, tolerance: f64, case: &str) {
    for (a, b) in actual.losses.iter().zip(&reference.losses) {
        assert!((a - b).abs() <= tolerance * b.abs(), "loss {a} against {b} in {case}");
    }
    for (name, values) in &actual.weights {
        let expected = &reference.weights[name];
        let largest = expected.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
        let difference = values.iter().zip(expected).fold(0.0_f32, |max, (a, b)| max.max((a - b).abs()));
        let relative = f64::from(difference) / f64::from(largest);
        assert!(relative <= tolerance, "`{name}` differs by {relative:.1e} in {case}");
    }
}
