//! The four engines: each has a run file of its own, with its grid, ZeRO level, precision and optimizer.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use pipezero::models::model::{LayerRole, ModelLayer, Tying};
use pipezero::models::shared::HeadWithLoss;
use pipezero::models::{CrossEntropy, Loss};
use pipezero::run::data::BatchSource;
use pipezero::run::engine::Inference;
use pipezero::{Engine, Plan, Resources, Run, RunFile};

use super::TEXTS;
use super::losses::Squared;

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Actor,
    Critic,
    Reward,
    Reference,
}

impl Name {
    pub(super) const ALL: [Self; 4] = [Self::Actor, Self::Critic, Self::Reward, Self::Reference];

    /// As files, folders and messages have it.
    pub(super) fn word(self) -> &'static str {
        ["actor", "critic", "reward", "reference"][self as usize]
    }

    /// A change without the engine's name that it begins with; `None` if it is about another.
    pub(super) fn own(self, change: &str) -> Option<String> {
        change.strip_prefix(self.word())?.strip_prefix('.').map(str::to_owned)
    }
}

/// The run of an engine: its run file, with those of `changes` that begin with its name, such as `critic.zero_optimization.stage=3`.
fn run(name: Name, trains: bool, changes: &[String]) -> Result<Run, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rlhf");
    let own: Vec<String> = changes.iter().filter_map(|change| name.own(change)).collect();
    let file =
        RunFile::load(&folder.join(name.word()).with_extension("json"))?.set(&own).map_err(of(name))?;
    let resources = Resources::this_host();
    let resolved = if trains { file.resolve(resources) } else { file.resolve_without_training(resources) };
    let (run, _) = resolved.map_err(of(name))?;
    match run.batch.train_batch_size {
        TEXTS => Ok(run),
        other => {
            Err(format!("{}: `train_batch_size` is {other}, but a round has {TEXTS} texts", name.word())
                .into())
        }
    }
}

/// An error with the name of its engine.
fn of<E: Display>(name: Name) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", name.word())
}

/// The plan of an engine that says what comes next.
pub(super) fn texts(
    name: Name,
    loss: Arc<dyn Loss>,
    trains: bool,
    changes: &[String],
) -> Result<Plan, Box<dyn Error>> {
    let run = run(name, trains, changes)?;
    let model = run.model.build_with_loss(loss)?;
    Ok(Plan::with_model(run, model).map_err(of(name))?)
}

/// The plan of an engine that says what a text is worth, after each token: its head has one output.
pub(super) fn values(name: Name, trains: bool, changes: &[String]) -> Result<Plan, Box<dyn Error>> {
    let run = run(name, trains, changes)?;
    let mut model = run.model.build()?;
    let head = HeadWithLoss::of_width(run.model.gpt().ok_or("the family is gpt2")?, 1, Arc::new(Squared));
    model.layers.pop();
    model.layers.push(ModelLayer::new(head, LayerRole::Head, Tying::Untied));
    Ok(Plan::with_model(run, model).map_err(of(name))?)
}

/// An engine that only answers, with these weights.
pub(super) fn asked(
    plan: Plan,
    source: Arc<dyn BatchSource>,
    weights: &Path,
) -> Result<Engine<Inference>, Box<dyn Error>> {
    let mut engine = Engine::for_inference(plan, source)?;
    engine.load(weights)?;
    Ok(engine)
}

/// Trains the steps that its run file asks for, and writes the weights.
pub(super) fn fitted(
    plan: Plan,
    source: Arc<dyn BatchSource>,
    weights: &Path,
) -> Result<f64, Box<dyn Error>> {
    let mut engine = Engine::new(plan, source)?;
    let mut loss = f64::NAN;
    for _ in 0..engine.plan().run().steps {
        loss = engine.train_batch()?.loss.ok_or("each text has targets")?;
    }
    engine.save(weights)?;
    Ok(loss)
}

/// The plan of the language's fit: the actor's, without anything of reinforcement.
pub(super) fn language(changes: &[String]) -> Result<Plan, Box<dyn Error>> {
    texts(Name::Actor, Arc::new(CrossEntropy), true, changes)
}
