//! A run, read back from its directory: to score text, and to continue text.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{
    BackendName, BatchConfig, ConfigErrors, ReductionPolicy, ResidencyConfig, Resources, Run, RunFile,
    ScheduleConfig, ZeroLevel,
};
use pipezero_plan::{Plan, PlanError};
use pipezero_run::checkpoint::Checkpoints;
use pipezero_run::data::{BatchSource, DataError, NoBatches, tokenizer_of};
use pipezero_run::engine::{Engine, EngineError, Inference, InitialState};
use pipezero_run::world::{World, world_of};
use pipezero_tokens::{TextCodec, TokenizerError};

use super::run_dir::RunDir;
use super::run_dir_error::RunDirError;

/// The run of a run directory, with the weights that it learned.
#[derive(Debug)]
pub struct TrainedRun {
    pub(super) file: RunFile,
    pub(super) weights: InitialState,
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
    /// The data of the run file.
    #[error("`{key}`: {0}", key = .0.key())]
    RunText(DataError),
    /// The text that was given.
    #[error(transparent)]
    Text(#[from] DataError),
    /// The run has tokens from files, and nothing says what text they are.
    #[error(
        "the run was trained on files of tokens and names no tokenizer, so nothing says which tokens a text is; write \
         `data.tokenizer` into the run.json of its folder"
    )]
    NoTokenizer,
    /// More batches than there are.
    #[error(
        "--batches is {asked}, but the data has {all} of {train_batch_size} sequences, and others would come again; write at most {all}, or \
         --all, which scores each sequence once"
    )]
    MoreThanAll {
        /// How many were asked for.
        asked: u64,
        /// How many there are.
        all: u64,
        /// Sequences of each.
        train_batch_size: usize,
    },
    /// Nothing can be scored.
    #[error("none of the tokens carries loss: there is nothing to score")]
    NoTargets,
    /// A text that the tokenizer fails at.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The ranks stopped, or the weights cannot be read.
    #[error(transparent)]
    Engine(#[from] EngineError),
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
        Ok(self.file.resolve_without_training(Resources::this_host())?.0.comm.backend)
    }

    /// How its text becomes tokens, and tokens text.
    ///
    /// # Errors
    /// When its tokenizer cannot be used.
    pub fn codec(&self) -> Result<TextCodec, TrainedRunError> {
        let (run, _) = self.file.resolve_without_training(Resources::this_host())?;
        if !run.data.knows_text() {
            return Err(TrainedRunError::NoTokenizer);
        }
        let tokenizer = tokenizer_of(&run.data).map_err(|error| TrainedRunError::RunText(error.into()))?;
        Ok(TextCodec::of(tokenizer))
    }

    /// An engine with the weights that takes up to so many prompts at once, to generate text; fewer where the run has a schedule of its own,
    /// which is for as many micro-batches as it says.
    ///
    /// # Errors
    /// When the model has not learned anything, or the ranks cannot be started.
    pub fn text_engine(self, num_prompts: usize) -> Result<Engine<Inference>, TrainedRunError> {
        self.text_engine_in(num_prompts, |plan| Ok(world_of(plan)?))
    }

    /// As [`TrainedRun::text_engine`], in a world for its plan; each process gets the logits.
    ///
    /// # Errors
    /// As [`TrainedRun::text_engine`].
    pub fn text_engine_in(
        self,
        num_prompts: usize,
        world: impl FnOnce(&Plan) -> Result<Arc<dyn World>, EngineError>,
    ) -> Result<Engine<Inference>, TrainedRunError> {
        let (run, _) = on_one_data_rank(self.file)?.resolve_without_training(Resources::this_host())?;
        if !run.model.learns() {
            return Err(TrainedRunError::NothingLearned("generate"));
        }
        let no_batches: Arc<dyn BatchSource> = Arc::new(NoBatches);
        let plan = Plan::new(with_prompts(run, num_prompts))?;
        let world = world(&plan)?;
        Ok(Engine::for_inference_with(plan, no_batches, world, &self.weights)?)
    }
}

/// The run on one data rank: one sequence at a time has no use for more. It keeps the number of its micro-batches, since a
/// schedule file has an order for so many; [`with_prompts`] has as many as there are prompts.
fn on_one_data_rank(file: RunFile) -> Result<RunFile, ConfigErrors> {
    let (run, _) = file.resolve_without_training(Resources::this_host())?;
    let num_micro_batches = run.batch.num_micro_batches;
    file.set(&[
        "parallel.data=1".to_owned(),
        "train_micro_batch_size_per_gpu=1".to_owned(),
        format!("gradient_accumulation_steps={num_micro_batches}"),
        format!("train_batch_size={num_micro_batches}"),
    ])
}

/// The run for so many prompts, without what limits and shards training: a rank that only reads its weights needs less.
fn with_prompts(mut run: Run, num_prompts: usize) -> Run {
    run.memory_bytes = None;
    run.zero.level = ZeroLevel::Zero0;
    // Nothing is trained. Patterns may name slices that this grid does not make.
    run.train_only = None;
    run.zero.reduce = ReductionPolicy::Last;
    run.zero.resident_units = ResidencyConfig::Strict;
    let num_micro_batches = match &mut run.parallel.schedule {
        ScheduleConfig::File { order, .. } => {
            *order = Arc::new(order.first_micro_batch());
            1
        }
        _ => num_prompts.max(1),
    };
    run.batch = BatchConfig { train_batch_size: num_micro_batches, micro_batch_size: 1, num_micro_batches };
    run
}
