//! The loop over steps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::batches::Batches;
use super::checkpoints::CheckpointKeeper;
use super::device_memory::DeviceMemory;
use super::error::TrainingError;
use super::evaluate::evaluate;
use super::metrics::{EvalLine, StepLine};
use super::metrics_file::MetricsFile;
use super::observer::{Observer, Work};
use super::process_memory::MemoryWatch;
use super::progress::Progress;
use super::rescue::save_after;
use super::run_dir::RunDir;
use super::step_flops::step_flops;
use super::summary::{StepSeconds, Summary};
use super::tracer::Tracer;
use super::weights_run::state_of;
use crate::measure::trace::TracedSteps;
use crate::plan::{Plan, Purpose};
use crate::run::checkpoint::{CheckpointError, CheckpointReader, Checkpoints, Position};
use crate::run::data::Start as TextStart;
use crate::run::engine::{Engine, EngineError, InitialState, StepReport};
use crate::run::world::{World, world_of};

/// What a training run does before its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The text is read.
    Text,
    /// Ranks allocate their memory and draw their initial weights.
    Drawn,
    /// Ranks allocate their memory and read weights.
    Loaded,
    /// Ranks allocate their memory and read their state.
    Resumed {
        /// The step after which it was written.
        step: u64,
    },
}

/// Where a run went on.
#[derive(Debug)]
pub struct Resumed {
    /// The step after which its checkpoint was written.
    pub step: u64,
    /// Whether the training text is not the one that the checkpoint's run read.
    pub has_other_text: bool,
    /// Newer checkpoints that are damaged.
    pub refused: Vec<CheckpointError>,
}

/// A training run that is ready to start: ranks allocated, text read.
pub struct Training {
    engine: Engine,
    batches: Batches,
    traced: Option<TracedSteps>,
    memory: MemoryWatch,
    resumed: Option<Resumed>,
    rescue: Option<PathBuf>,
    /// Whether the run directory has the weights of the run's end.
    has_saved_weights: bool,
}

impl Training {
    /// Reads the text, if the model reads any, and starts the ranks.
    ///
    /// # Errors
    /// When the text cannot be read or is too short, or the ranks cannot be started.
    pub fn new(plan: Plan) -> Result<Self, TrainingError> {
        let world = world_of(&plan).map_err(EngineError::from)?;
        Self::in_world(plan, world)
    }

    /// As [`Training::new`], for the ranks of this process. Every process of the world trains the same plan.
    ///
    /// # Errors
    /// As [`Training::new`].
    pub fn in_world(plan: Plan, world: Arc<dyn World>) -> Result<Self, TrainingError> {
        Self::starting(plan, world, &mut |_| {})
    }

    /// As [`Training::in_world`], and says what it is about to do.
    ///
    /// # Errors
    /// As [`Training::new`].
    pub fn starting(
        plan: Plan,
        world: Arc<dyn World>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        Self::at(plan, world, TextStart::default(), InitialState::Drawn, begins)
    }

    /// Checks that a run can go on from the checkpoint of a run directory that was written after a step, or from one that may be sound; or that
    /// nothing is lost if it starts at the first step.
    ///
    /// # Errors
    /// When the checkpoint is missing, when all are damaged, and when there is none of a run that has left weights.
    pub fn check_resumable(directory: &Path, step: Option<u64>) -> Result<(), TrainingError> {
        if step.is_some() {
            return Ok(Checkpoints::open(directory, step).map(drop).map_err(EngineError::from)?);
        }
        let mut refused = Vec::new();
        let found = Checkpoints::of_run(directory).newest_before(u64::MAX, &mut refused);
        match found.map_err(EngineError::from)? {
            Some(_) => Ok(()),
            None => check_start_anew(directory, refused),
        }
    }

    /// As [`Training::starting`], and goes on from the checkpoint of a run directory that was written after a step, or from the newest that is
    /// sound, whichever grid wrote it. Without any it starts at the first step. Where a checkpoint turns out to be damaged while it is read, the
    /// processes connect again.
    ///
    /// # Errors
    /// As [`Training::new`]; when the checkpoint holds another model or optimizer, when that of the step is missing or all are damaged, and
    /// when there is none of a run that has left weights.
    pub fn resuming(
        plan: Plan,
        world: Arc<dyn World>,
        directory: &Path,
        step: Option<u64>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        let mut world = Some(world);
        let mut world = || match world.take() {
            Some(world) => Ok(world),
            None => world_of(&plan).map_err(EngineError::from),
        };
        if let Some(step) = step {
            let found = Arc::new(Checkpoints::open(directory, Some(step)).map_err(EngineError::from)?);
            return Self::from_checkpoint(plan.clone(), world()?, found, begins);
        }
        let mut refused = Vec::new();
        let checkpoints = Checkpoints::of_run(directory);
        let mut before = u64::MAX;
        loop {
            let found = checkpoints.newest_before(before, &mut refused).map_err(EngineError::from)?;
            let Some(found) = found else {
                check_start_anew(directory, refused)?;
                return Self::starting(plan.clone(), world()?, begins);
            };
            before = found.manifest().position.step;
            match Self::from_checkpoint(plan.clone(), world()?, Arc::new(found), begins) {
                Err(TrainingError::Engine(EngineError::Checkpoint(error))) if error.is_damage() => {
                    refused.push(error);
                }
                Ok(mut training) => {
                    let resumed = training.resumed.as_mut();
                    resumed.expect("it was resumed").refused = refused;
                    return Ok(training);
                }
                failed => return failed,
            }
        }
    }

    /// Checks that [`Training::initialised_from`] would find weights of the plan's model, as far as headers say it.
    ///
    /// # Errors
    /// When there are no weights, or they are of another model.
    pub fn check_initial_weights(plan: &Plan, path: &Path) -> Result<(), TrainingError> {
        Ok(state_of(plan, path)?.check_headers(plan)?)
    }

    /// As [`Training::starting`], with the weights of a file that [`Engine::save`] wrote, of a run directory, of a checkpoint, on whichever
    /// grid, or of a folder of transformers; the optimizer starts anew.
    ///
    /// # Errors
    /// As [`Training::new`]; when there are no weights, or they are damaged or of another model.
    pub fn initialised_from(
        plan: Plan,
        world: Arc<dyn World>,
        path: &Path,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        let state = state_of(&plan, path)?;
        Self::at(plan, world, TextStart::default(), state, begins)
    }

    fn from_checkpoint(
        plan: Plan,
        world: Arc<dyn World>,
        found: Arc<CheckpointReader>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        let Position { step, num_samples, .. } = found.manifest().position;
        if step > plan.run().steps {
            let (path, num_steps) = (found.folder().to_owned(), plan.run().steps);
            return Err(EngineError::from(CheckpointError::Beyond { path, step, num_steps }).into());
        }
        let at = TextStart { num_steps: step, num_sequences: num_samples };
        let mut training = Self::at(plan, world, at, InitialState::Checkpoint(Arc::clone(&found)), begins)?;
        let has_other_text = found.manifest().text_checksum != training.batches.text_checksum;
        training.resumed = Some(Resumed { step, has_other_text, refused: Vec::new() });
        Ok(training)
    }

    fn at(
        plan: Plan,
        world: Arc<dyn World>,
        start: TextStart,
        state: InitialState,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        // Before the text is read, which may take minutes.
        Engine::check_host(&plan, Purpose::Training, &*world)?;
        begins(Start::Text);
        let batches = Batches::of(&plan, start)?;
        begins(match &state {
            InitialState::Checkpoint(from) => Start::Resumed { step: from.manifest().position.step },
            InitialState::Drawn => Start::Drawn,
            InitialState::Weights(_) | InitialState::Parameters(_) => Start::Loaded,
        });
        let memory = MemoryWatch::start(&plan, &*world);
        let source = Arc::clone(&batches.training);
        let engine = Engine::with_state(plan, source, Purpose::Training, world, &state)?;
        Ok(Self {
            engine,
            batches,
            traced: None,
            memory,
            resumed: None,
            rescue: None,
            has_saved_weights: false,
        })
    }

    /// The checkpoint from which it goes on; `None` if it starts at the first step.
    pub fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// Records these steps and writes them to the run directory.
    pub fn traced(self, steps: TracedSteps) -> Self {
        Self { traced: Some(steps), ..self }
    }

    /// Where the state is saved when an error ends the run and it cannot be saved in the run directory; a new folder.
    pub fn rescued_to(self, folder: PathBuf) -> Self {
        Self { rescue: Some(folder), ..self }
    }

    /// What people call the devices that compute.
    pub fn device_name(&self) -> String {
        self.engine.device_name()
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }

    /// Whether this process writes the run directory: the one of rank 0 does.
    pub fn writes(&self) -> bool {
        self.engine.has_rank_0()
    }

    /// What this process has done before the steps, once all processes have come as far, if none failed at it.
    ///
    /// # Errors
    /// Its own error; [`EngineError::Elsewhere`] where only others failed; when a rank, or another process, stops.
    pub fn together<T>(&mut self, done: Result<T, TrainingError>) -> Result<T, TrainingError> {
        self.engine.agree(done)
    }

    /// Runs until the last step or until `interrupted` is set in any process, then evaluates, saves the weights and the summary. The
    /// process of rank 0 writes to `directory`, which the others do not read. The lines that the observer gets, and the summary, have the
    /// same losses, norms and counts in every process; their times, memory and traffic are of the ranks that the process knows
    /// ([`StepReport`]).
    ///
    /// # Errors
    /// When a rank stops or a file cannot be written; [`TrainingError::Saved`] if the state could be saved before the end.
    pub fn run(
        mut self,
        directory: &RunDir,
        interrupted: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Summary, TrainingError> {
        let first = self.resumed.as_ref().map_or(0, |resumed| resumed.step);
        let text_checksum = self.batches.text_checksum.clone();
        let keeper = CheckpointKeeper::new(directory, self.plan().run(), first, text_checksum);
        let mut keeper = self.engine.agree(keeper)?;
        match self.run_steps(directory, &mut keeper, interrupted, observer) {
            Err(error) if error.leaves_weights() => {
                observer.begins(Work::Saving);
                let rescue = self.rescue.as_deref();
                Err(save_after(error, &mut self.engine, &mut keeper, directory, rescue))
            }
            Err(error) => {
                let step = self.engine.position().step;
                Err(TrainingError::Lost {
                    error: Box::new(error),
                    step,
                    has_weights: self.has_saved_weights,
                    checkpoint: newest_checkpoint(directory.path(), step).max(keeper.newest()),
                    path: directory.path().to_owned(),
                })
            }
            done => done,
        }
    }

    fn run_steps(
        &mut self,
        directory: &RunDir,
        keeper: &mut CheckpointKeeper,
        interrupted: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Summary, TrainingError> {
        let first = self.resumed.as_ref().map_or(0, |resumed| resumed.step);
        // A run that was killed after its last step evaluates once more.
        let has_all_steps = first == self.plan().run().steps;
        let metrics = self.writes().then(|| directory.metrics_until(first, has_all_steps));
        let mut metrics = metrics.transpose()?;
        let (steps, every) = (self.plan().run().steps, self.plan().run().evaluation.every);
        let mut progress = Progress::after(first);
        let is_traced = self.writes() && self.traced.is_some();
        let mut tracer = is_traced.then(|| Tracer::new(directory));
        while progress.num_steps() < steps
            && !self.engine.in_any_process(interrupted.load(Ordering::Relaxed))?
        {
            let next = progress.num_steps() + 1;
            let (report, line) = self.step(directory, tracer.as_mut(), metrics.as_mut(), next)?;
            self.memory.measure();
            observer.step(&line);
            progress.add(&line, report);
            let step = progress.num_steps();
            if every > 0 && step.is_multiple_of(every) && step < steps {
                self.evaluate(step, metrics.as_mut(), observer)?;
            }
            keeper.poll(&mut self.engine, observer)?;
            if keeper.is_due(step, &mut self.engine)? {
                keeper.start(step, &mut self.engine, observer)?;
            }
        }
        if progress.num_steps() < steps {
            keeper.start_of_interrupted(progress.num_steps(), &mut self.engine, observer)?;
        } else if self.plan().run().checkpoint.is_asked_for() {
            keeper.start(progress.num_steps(), &mut self.engine, observer)?;
        }
        // The checkpoint first: weights without one are those of a run that cannot be gone on with. Both before the evaluation, whose errors so
        // lose nothing.
        self.engine.agree(directory.check_is_there().map_err(TrainingError::from))?;
        keeper.finish(&mut self.engine, observer)?;
        observer.begins(Work::Saving);
        self.engine.save(&directory.file(RunDir::WEIGHTS))?;
        self.has_saved_weights = true;
        self.memory.measure();
        let validation_loss = self.evaluate(progress.num_steps(), metrics.as_mut(), observer)?;
        let devices = self.engine.gather(DeviceMemory::of_devices(&self.engine.devices()))?.concat();
        let summary = self.summary(&progress, validation_loss, devices);
        let written = if self.writes() { self.write(&summary, directory, tracer) } else { Ok(()) };
        self.engine.agree(written)?;
        Ok(summary)
    }

    /// Writes what a run leaves at its end.
    fn write(
        &self,
        summary: &Summary,
        directory: &RunDir,
        tracer: Option<Tracer>,
    ) -> Result<(), TrainingError> {
        let text = serde_json::to_string_pretty(summary).expect("a summary has string keys and finite depth");
        directory.write(RunDir::SUMMARY, &text)?;
        tracer.map_or(Ok(()), |mut tracer| tracer.finish(self.plan(), directory))
    }

    /// One step, recorded if it is to be traced, and written by the process that has the files.
    fn step(
        &mut self,
        directory: &RunDir,
        tracer: Option<&mut Tracer>,
        metrics: Option<&mut MetricsFile>,
        step: u64,
    ) -> Result<(StepReport, StepLine), TrainingError> {
        let is_traced = self.traced.as_ref().is_some_and(|steps| steps.contains(step));
        let report =
            if is_traced { self.engine.train_batch_recorded()? } else { self.engine.train_batch()? };
        let epoch = self.batches.training.epoch(report.step);
        let flops = step_flops(self.plan(), &*self.batches.training, report.step);
        let line = StepLine::new(&report, epoch, flops, self.engine.peak_flops_per_s());
        let traced = tracer
            .filter(|_| is_traced)
            .map_or(Ok(()), |tracer| tracer.add(self.engine.plan(), &report).map_err(TrainingError::from));
        // A folder that was removed or renamed can still be written, and nobody would see it.
        let written =
            metrics.map_or(Ok(()), |metrics| directory.check_is_there().and_then(|()| metrics.add(&line)));
        self.engine.agree(traced.and(written.map_err(TrainingError::from)))?;
        Ok((report, line))
    }

    /// The validation loss, if there is validation text.
    fn evaluate(
        &mut self,
        step: u64,
        metrics: Option<&mut MetricsFile>,
        observer: &mut dyn Observer,
    ) -> Result<Option<f64>, TrainingError> {
        let Some(source) = &self.batches.validation else { return Ok(None) };
        let num_batches = self.engine.plan().run().evaluation.batches;
        let begins = |batch| observer.begins(Work::Evaluation { batch, num_batches });
        let line = EvalLine::new(step, &evaluate(&mut self.engine, source, num_batches, begins)?);
        self.memory.measure();
        let written = metrics.map_or(Ok(()), |metrics| metrics.add(&line));
        self.engine.agree(written.map_err(TrainingError::from))?;
        observer.evaluation(&line);
        Ok(line.validation_loss)
    }

    fn summary(
        &self,
        progress: &Progress,
        validation_loss: Option<f64>,
        devices: Vec<DeviceMemory>,
    ) -> Summary {
        let run = self.plan().run();
        Summary {
            steps: progress.num_steps(),
            skipped_steps: progress.num_skipped,
            skipped_steps_at_end: progress.num_skipped_in_a_row,
            ranks_per_node: self.engine.ranks_per_node(),
            interrupted: progress.num_steps() < run.steps,
            training_loss: progress.last.as_ref().and_then(|report| report.loss),
            validation_loss,
            baselines: self.batches.baselines,
            tokens_per_s: progress.median_tokens_per_s(),
            step_s: StepSeconds::of(&progress.step_s),
            bubble_share: self.plan().bubble_share(),
            idle_share: progress.mean_idle_share(),
            exposed_comm_share: progress.mean_exposed_comm_share(),
            loss_scale: progress.last.as_ref().and_then(|report| report.loss_scale),
            ranks: progress.last.as_ref().map_or_else(Vec::new, StepReport::measured),
            planned: self.plan().forecast(),
            process: self.memory.memory(),
            devices,
        }
    }
}

/// Checks that nothing is lost if a run starts at its first step, after these checkpoints were refused.
fn check_start_anew(directory: &Path, refused: Vec<CheckpointError>) -> Result<(), TrainingError> {
    match CheckpointError::of_all(refused) {
        Some(error) => Err(EngineError::from(error).into()),
        None => Ok(RunDir::check_nothing_is_lost(directory)?),
    }
}

/// The step of the newest checkpoint up to one: it may have been finished since the run last saw to it.
fn newest_checkpoint(directory: &Path, step: u64) -> Option<u64> {
    let found = Checkpoints::of_run(directory).newest_before(step.saturating_add(1), &mut Vec::new());
    Some(found.ok()??.manifest().position.step)
}
