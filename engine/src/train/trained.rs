//! A run, read back from its directory: to score text, and to continue text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::batches::{batch_layout, corpus};
use super::evaluate::evaluate;
use super::run_dir::RunDir;
use super::run_dir_error::RunDirError;
use crate::config::{
    BackendName, BatchConfig, ConfigErrors, Launch, ReductionPolicy, ResidencyConfig, Run, RunFile,
    ScheduleConfig, ZeroLevel,
};
use crate::plan::{Plan, PlanError, Purpose};
use crate::run::checkpoint::Checkpoints;
use crate::run::data::{BatchSource, Corpus, DataError, NoBatches};
use crate::run::engine::{Engine, EngineError, InitialState};
use crate::run::world::{World, world_of};

/// The run of a run directory, with the weights that it learned.
#[derive(Debug)]
pub struct TrainedRun {
    file: RunFile,
    weights: InitialState,
}

/// Why a finished run cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainedRunError {
    /// The folder does not hold a finished run.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// Its run file has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// Its model is of timed layers, which have no weights to learn.
    #[error(
        "the run's model is of family \"timed\", which computes nothing: there is nothing to {0}; use a run of a GPT"
    )]
    NothingLearned(&'static str),
    /// It cannot be planned on this host.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The text of the run file.
    #[error("`data.text`: {0}")]
    RunText(DataError),
    /// The text that was given.
    #[error(transparent)]
    Text(#[from] DataError),
    /// The ranks stopped, or the weights cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The loss of a model on some text.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// Tokens that were predicted.
    pub num_tokens: u64,
    /// Mean loss, nats per token.
    pub loss: f64,
    /// The type and the devices that it was computed in and on: `f32 on CPU`.
    pub computed_in: String,
}

impl Score {
    /// How many tokens the model is undecided between, on average.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    /// Bits per byte of text; a token is a byte.
    pub fn bits_per_byte(&self) -> f64 {
        self.loss / std::f64::consts::LN_2
    }
}

impl TrainedRun {
    /// Opens the directory of a finished run.
    ///
    /// # Errors
    /// When there is no run directory, or its run file has mistakes.
    pub fn open(path: &Path) -> Result<Self, TrainedRunError> {
        let directory = RunDir::open(path)?;
        let file = RunFile::load(&directory.file(RunDir::RUN_FILE))?;
        Ok(Self { file, weights: InitialState::Weights(directory.file(RunDir::WEIGHTS)) })
    }

    /// Opens the directory of a run that has a checkpoint after a step, for the weights of that.
    ///
    /// # Errors
    /// As [`TrainedRun::open`]; when there is no such checkpoint, or it is damaged.
    pub fn open_at(path: &Path, step: u64) -> Result<Self, TrainedRunError> {
        let directory = RunDir::of_run_file(path)?;
        let file = RunFile::load(&directory.file(RunDir::RUN_FILE))?;
        let found = Checkpoints::open(path, Some(step)).map_err(EngineError::from)?;
        Ok(Self { file, weights: InitialState::Parameters(Arc::new(found)) })
    }

    /// The same run on a device of the run file's names, whatever it was trained on and whatever connected its ranks.
    ///
    /// # Errors
    /// When there is no device of this name.
    pub fn on_device(self, name: &str) -> Result<Self, ConfigErrors> {
        let device = format!("device={name}");
        let connected_by_default = ["comm.backend=auto", "comm.reduction=ordered"].map(str::to_owned);
        Ok(Self { file: self.file.set(&[&[device][..], &connected_by_default].concat())?, ..self })
    }

    /// What connects its ranks.
    ///
    /// # Errors
    /// When the run file has mistakes.
    pub fn backend(&self) -> Result<BackendName, ConfigErrors> {
        Ok(self.file.resolve(Launch::this_host())?.0.comm.backend)
    }

    /// Scores batches of the run's validation text or, if `text` names files, of those. The batches are drawn at random, the
    /// same in every call; `None` is the number of the run file.
    ///
    /// # Errors
    /// When the model has not learned anything, the text cannot be read or is too short, or the ranks cannot be started.
    pub fn score(&self, text: &[PathBuf], num_batches: Option<u64>) -> Result<Score, TrainedRunError> {
        self.score_in(text, num_batches, |plan| Ok(world_of(plan)?))
    }

    /// As [`TrainedRun::score`], in a world for its plan; each process gets the score.
    ///
    /// # Errors
    /// As [`TrainedRun::score`].
    pub fn score_in(
        &self,
        text: &[PathBuf],
        num_batches: Option<u64>,
        world: impl FnOnce(&Plan) -> Result<Arc<dyn World>, EngineError>,
    ) -> Result<Score, TrainedRunError> {
        let (run, _) = self.file.resolve(Launch::this_host())?;
        if !run.model.learns() {
            return Err(TrainedRunError::NothingLearned("score"));
        }
        let plan = Plan::new(run)?;
        let source: Arc<dyn BatchSource> = if text.is_empty() {
            let corpus = corpus(&plan).map_err(TrainedRunError::RunText)?;
            let batches = corpus.validation_batches(batch_layout(&plan), plan.run().seed)?;
            Arc::new(batches.ok_or(DataError::NoValidation)?)
        } else {
            let corpus = Corpus::unsplit(text, plan.micro_batch_shape().seq_length)?;
            corpus.check_vocabulary(plan.vocab_size())?;
            Arc::new(corpus.training_batches(batch_layout(&plan), plan.run().seed)?)
        };
        let num_batches = num_batches.unwrap_or(plan.run().evaluation.batches);
        let world = world(&plan)?;
        let purpose = Purpose::Inference;
        let mut engine = Engine::with_state(plan, Arc::clone(&source), purpose, world, &self.weights)?;
        let report = evaluate(&mut engine, &source, num_batches, |_| {})?;
        let loss = report.loss.expect("every token of a text carries loss, and there is at least one batch");
        Ok(Score { num_tokens: report.num_targets, loss, computed_in: engine.computed_in() })
    }

    /// An engine with the weights that runs one sequence at a time, to generate text.
    ///
    /// # Errors
    /// When the model has not learned anything, or the ranks cannot be started.
    pub fn text_engine(self) -> Result<Engine, TrainedRunError> {
        self.text_engine_in(|plan| Ok(world_of(plan)?))
    }

    /// As [`TrainedRun::text_engine`], in a world for its plan; each process gets the logits.
    ///
    /// # Errors
    /// As [`TrainedRun::text_engine`].
    pub fn text_engine_in(
        self,
        world: impl FnOnce(&Plan) -> Result<Arc<dyn World>, EngineError>,
    ) -> Result<Engine, TrainedRunError> {
        let (run, _) = on_one_data_rank(self.file)?.resolve(Launch::this_host())?;
        if !run.model.learns() {
            return Err(TrainedRunError::NothingLearned("generate"));
        }
        let no_batches: Arc<dyn BatchSource> = Arc::new(NoBatches);
        let plan = Plan::new(with_one_sequence(run))?;
        let world = world(&plan)?;
        Ok(Engine::with_state(plan, no_batches, Purpose::Inference, world, &self.weights)?)
    }
}

/// The run on one data rank: one sequence at a time has no use for more. It keeps the number of its micro-batches, since a
/// schedule file has an order for so many; [`with_one_sequence`] leaves one of them.
fn on_one_data_rank(file: RunFile) -> Result<RunFile, ConfigErrors> {
    let (run, _) = file.resolve(Launch::this_host())?;
    let num_micro_batches = run.batch.num_micro_batches;
    file.set(&[
        "parallel.data=1".to_owned(),
        "train_micro_batch_size_per_gpu=1".to_owned(),
        format!("gradient_accumulation_steps={num_micro_batches}"),
        format!("train_batch_size={num_micro_batches}"),
    ])
}

/// The run for one sequence, without what limits and shards training: a rank that only reads its weights needs less.
fn with_one_sequence(mut run: Run) -> Run {
    run.memory_bytes = None;
    run.zero.level = ZeroLevel::Zero0;
    run.zero.reduce = ReductionPolicy::Last;
    run.zero.resident_units = ResidencyConfig::Strict;
    run.batch = BatchConfig { train_batch_size: 1, micro_batch_size: 1, num_micro_batches: 1 };
    if let ScheduleConfig::File { order, .. } = &mut run.parallel.schedule {
        *order = Arc::new(order.first_micro_batch());
    }
    run
}
