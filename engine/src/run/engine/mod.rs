//! The engine: runs a plan, one thread per rank, and carries out the few commands that users have.

mod command;
mod error;
mod host_memory;
mod ranks;
mod report;
mod save;
mod weights_file;
mod worker;

use std::path::Path;
use std::sync::Arc;

use pipezero_models::{Device, Host};
use pipezero_partition::Purpose;

use command::{Answer, Command};
pub use error::{EngineError, Report};
use ranks::Ranks;
pub use report::{EvalReport, MeasuredRank, StepReport};
pub use weights_file::WeightsError;

use crate::plan::Plan;
use crate::run::data::BatchSource;
use crate::run::executor::{Event, Probe, RankOutcome, StepInputs};
use crate::run::memory::{self, Category, Ledger};
use crate::run::optimizer::{LearningRate, LossScaler, ScaleChange};

/// Trains, evaluates, saves and loads one model on a grid of ranks.
///
/// Every method commands all ranks and returns when all have replied. After an error the ranks have stopped and a new
/// engine is needed, except after [`EngineError::LossScale`]: its step was left out, and the weights are those before it.
#[derive(Debug)]
pub struct Engine {
    plan: Arc<Plan>,
    ranks: Ranks,
    /// Whether every step is recorded.
    records: bool,
    learning_rate: LearningRate,
    loss_scaler: Option<LossScaler>,
    /// Steps done.
    step: u64,
    /// Steps done that did not overflow.
    update: u64,
}

impl Engine {
    /// Starts the ranks of a plan for training, with initial weights that depend on the seed alone.
    ///
    /// # Errors
    /// [`EngineError::Memory`] before anything is allocated, where the plan needs more than this host has; when a
    /// thread cannot be started.
    pub fn new(plan: Plan, source: Arc<dyn BatchSource>) -> Result<Self, EngineError> {
        Self::start(plan, source, Purpose::Training, Arc::new(Host))
    }

    /// Starts the ranks without gradients and optimizer state: for [`Engine::eval_batch`] and [`Engine::logits`].
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn for_inference(plan: Plan, source: Arc<dyn BatchSource>) -> Result<Self, EngineError> {
        Self::start(plan, source, Purpose::Inference, Arc::new(Host))
    }

    /// As [`Engine::new`], with all ranks on a device.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn on_device(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        device: Arc<dyn Device>,
    ) -> Result<Self, EngineError> {
        Self::start(plan, source, Purpose::Training, device)
    }

    /// As [`Engine::new`], and every step's report holds what happened to each rank's instructions and when.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn recording(plan: Plan, source: Arc<dyn BatchSource>) -> Result<Self, EngineError> {
        let mut engine = Self::new(plan, source)?;
        engine.records = true;
        Ok(engine)
    }

    fn start(
        plan: Plan,
        source: Arc<dyn BatchSource>,
        purpose: Purpose,
        device: Arc<dyn Device>,
    ) -> Result<Self, EngineError> {
        host_memory::check(&plan, purpose, memory::available_bytes())?;
        let plan = Arc::new(plan);
        let learning_rate = LearningRate::new(&plan.run().optimizer, &plan.run().scheduler);
        let ranks = Ranks::start(&plan, &source, purpose, device)?;
        let loss_scaler = LossScaler::new(plan.run().precision);
        let mut engine = Self { plan, ranks, records: false, learning_rate, loss_scaler, step: 0, update: 0 };
        engine.ranks.ask(&Command::Initialise)?;
        Ok(engine)
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One optimizer step on the next batch of the source.
    ///
    /// # Errors
    /// When a rank stops; the report names every rank's instruction. No step is half done on disk, but the weights in
    /// memory are lost. [`EngineError::LossScale`] where fp16 overflows at the lowest loss scale; weights are kept then.
    pub fn train_batch(&mut self) -> Result<StepReport, EngineError> {
        self.train(self.records)
    }

    /// As [`Engine::train_batch`], and the report holds what happened to each rank's instructions and when, whether or not the
    /// engine records all steps. What is recorded costs a mark of the compute queue for each event and changes no
    /// number.
    ///
    /// # Errors
    /// As [`Engine::train_batch`].
    pub fn train_batch_recorded(&mut self) -> Result<StepReport, EngineError> {
        self.train(true)
    }

    fn train(&mut self, records: bool) -> Result<StepReport, EngineError> {
        let (step, update) = (self.step + 1, self.update + 1);
        let learning_rate = self.learning_rate.at(update);
        let loss_scale = self.loss_scaler.as_ref().map(LossScaler::scale);
        let inputs =
            StepInputs { step, update, learning_rate, loss_scale: loss_scale.unwrap_or(1.0), records };
        let outcomes = outcomes(self.ranks.ask(&Command::Train(inputs))?);
        let overflowed = outcomes.first().is_some_and(|first| first.overflowed);
        self.step = step;
        self.update += u64::from(!overflowed);
        let mut report = StepReport::new(inputs, loss_scale, outcomes);
        tracing::debug!(step, loss = report.loss, step_s = report.step_s, "step");
        self.update_loss_scale(step, overflowed)?;
        report.next_loss_scale = self.loss_scaler.as_ref().map(LossScaler::scale);
        Ok(report)
    }

    /// Sends messages only, and returns what happened to them and when, by world rank.
    pub(crate) fn probe(&mut self, probe: Probe) -> Result<Vec<Vec<Event>>, EngineError> {
        let outcomes = outcomes(self.ranks.ask(&Command::Probe(Arc::new(probe)))?);
        Ok(outcomes.into_iter().map(|outcome| outcome.events).collect())
    }

    /// Updates the loss scale after a step and logs its change. That a step was left out is in its report, and the caller shows
    /// it.
    fn update_loss_scale(&mut self, step: u64, overflowed: bool) -> Result<(), EngineError> {
        let Some(scaler) = &mut self.loss_scaler else { return Ok(()) };
        let scale = scaler.scale();
        let change = scaler.update(overflowed);
        match (overflowed, change) {
            (_, ScaleChange::Exhausted) => return Err(EngineError::LossScale { step, scale }),
            (true, ScaleChange::To(next)) => {
                tracing::debug!(
                    step,
                    scale,
                    next,
                    "a gradient overflowed: step left out, loss scale lowered"
                );
            }
            (true, ScaleChange::Kept) => {
                tracing::debug!(step, scale, "a gradient overflowed: step left out, loss scale kept");
            }
            (false, ScaleChange::To(next)) => tracing::info!(step, scale, next, "loss scale raised"),
            (false, ScaleChange::Kept) => {}
        }
        Ok(())
    }

    /// The loss of batch `batch` (from 1) of `source`, without gradients; the weights stay as they are.
    ///
    /// # Errors
    /// As [`Engine::train_batch`].
    pub fn eval_batch(
        &mut self,
        source: &Arc<dyn BatchSource>,
        batch: u64,
    ) -> Result<EvalReport, EngineError> {
        let answers = self.ranks.ask(&Command::Evaluate { source: Arc::clone(source), batch })?;
        Ok(EvalReport::new(&outcomes(answers)))
    }

    /// The logits `[V]` that follow `tokens`, through the pipeline.
    ///
    /// # Errors
    /// [`EngineError::PromptLength`] for no tokens or more than a sequence, [`EngineError::PromptToken`] for one outside
    /// the vocabulary; otherwise as [`Engine::train_batch`].
    pub fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
        let seq_length = self.plan.micro_batch_shape().seq_length;
        if tokens.is_empty() || tokens.len() > seq_length {
            return Err(EngineError::PromptLength { num_tokens: tokens.len(), seq_length });
        }
        let vocab_size = self.plan.vocab_size();
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
            return Err(EngineError::PromptToken { token, vocab_size });
        }
        self.ranks.ask_for_values(&Command::Logits { tokens: tokens.into() })
    }

    /// Writes the weights to one safetensors file, gathered unit by unit: no more than a unit is held at once.
    ///
    /// # Errors
    /// When the file cannot be written or a rank stops. The file appears under its name only when it is complete.
    pub fn save(&mut self, path: &Path) -> Result<(), EngineError> {
        save::save(&self.plan, &mut self.ranks, path)
    }

    /// Reads weights that [`Engine::save`] wrote, on any grid; every rank reads its own part.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or belongs to another model.
    pub fn load(&mut self, path: &Path) -> Result<(), EngineError> {
        let file = Arc::new(weights_file::WeightsFile::open(&self.plan, path)?);
        self.ranks.ask(&Command::Load(file)).map(drop)
    }

    /// The most bytes that each rank has held, and what it sent in the step of the report.
    pub fn measured(&self, report: &StepReport) -> Vec<MeasuredRank> {
        let ranks = self.ranks.ledgers().iter().zip(&report.ranks);
        ranks.enumerate().map(|(rank, (ledger, outcome))| MeasuredRank::new(rank, ledger, outcome)).collect()
    }

    /// The ledger of a rank's memory.
    pub fn ledger(&self, rank: usize) -> &Ledger {
        &self.ranks.ledgers()[rank]
    }

    /// Bytes that all ranks hold at most, by category.
    pub fn peak_bytes(&self, category: Category) -> u64 {
        self.ranks.ledgers().iter().map(|ledger| ledger.peak_bytes(category)).sum()
    }
}

fn outcomes(answers: Vec<Answer>) -> Vec<RankOutcome> {
    answers
        .into_iter()
        .filter_map(|answer| match answer {
            Answer::Outcome(outcome) => Some(*outcome),
            Answer::Done | Answer::Values(_) => None,
        })
        .collect()
}
