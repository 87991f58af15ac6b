//! A training run that is ready to start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_config::hugging_face::Unused;
use pipezero_files::host::LaunchedProcess;
use pipezero_measure::trace::TracedSteps;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointError, CheckpointReader, Checkpoints, Position, StepOfStart};
use pipezero_run::data::Start as TextStart;
use pipezero_run::engine::{Engine, EngineError, InitialState, LoadedWeights};
use pipezero_run::world::{World, world_of};

use super::batches::Batches;
use super::chosen_checkpoint::newest_of_all;
use super::error::TrainingError;
use super::inputs::inputs;
use super::metrics_file::{LineFaults, MetricsFile};
use super::process_memory::MemoryWatch;
use super::run_dir::RunDir;
use super::same_inputs::{Compared, compare};
use super::since_checkpoint::{Changes, about};
use super::teacher::Teacher;
use super::weights_run::{initial_state, state_of};

/// What a training run does before its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The text is read.
    Text,
    /// Large files are read, so that processes can compare them.
    Comparing {
        /// Bytes that this process has read.
        num_read_bytes: u64,
        /// Bytes that this process reads in all.
        num_bytes: u64,
    },
    /// Processes have compared what they read: large files only in parts, unless all were asked for.
    Compared(Compared),
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
    /// The last step that was done before; those after `step` up to it are done again.
    pub last_done: u64,
    /// The differences between the run and the one that wrote the checkpoint.
    pub changes: Changes,
    /// Newer checkpoints that are damaged.
    pub refused: Vec<CheckpointError>,
    /// The same step, and which start of the run did it.
    pub from: StepOfStart,
    /// Later steps with checkpoints of a branch that the run has left.
    pub left: Vec<u64>,
    /// The faults of the lines of `metrics.jsonl` before it, for example from a full disk.
    pub line_faults: LineFaults,
}

/// A training run that is ready to start: ranks allocated, text read.
pub struct Training {
    pub(super) engine: Engine,
    pub(super) batches: Batches,
    pub(super) traced: Option<TracedSteps>,
    pub(super) memory: MemoryWatch,
    pub(super) resumed: Option<Resumed>,
    pub(super) rescue: Option<PathBuf>,
    /// Whose logits it learns from too.
    pub(super) teacher: Option<Teacher>,
}

/// With what state a training run begins.
#[derive(Clone, Copy, Debug)]
pub enum Beginning<'a> {
    /// The weights that the run itself names (`init.from`), or weights drawn from the seed.
    Drawn,
    /// The weights at this path, as [`Training::initialised_from`] has it.
    Weights(&'a Path),
    /// The newest checkpoint of a run directory, or that of a step, as [`Training::resuming`] has it.
    Checkpoint {
        /// The run directory.
        directory: &'a Path,
        /// The step.
        step: Option<u64>,
    },
}

impl Training {
    /// A run that begins so, of a plan whose loss reads a teacher's logits, if there is one.
    ///
    /// # Errors
    /// As [`Training::starting`], [`Training::initialised_from`] and [`Training::resuming`].
    pub fn beginning(
        plan: Plan,
        world: Arc<dyn World>,
        beginning: Beginning<'_>,
        mut teacher: Option<Teacher>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        let teacher = &mut teacher;
        match beginning {
            Beginning::Drawn => {
                let state = initial_state(&plan)?;
                Self::at(plan, world, TextStart::default(), state, teacher, begins)
            }
            Beginning::Weights(path) => {
                let state = state_of(&plan, path)?;
                Self::at(plan, world, TextStart::default(), state, teacher, begins)
            }
            Beginning::Checkpoint { directory, step } => {
                Self::from_directory(plan, world, directory, step, teacher, begins)
            }
        }
    }

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
        Self::beginning(plan, world, Beginning::Drawn, None, begins)
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
        Self::beginning(plan, world, Beginning::Checkpoint { directory, step }, None, begins)
    }

    fn from_directory(
        plan: Plan,
        world: Arc<dyn World>,
        directory: &Path,
        step: Option<u64>,
        teacher: &mut Option<Teacher>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        let mut world = Some(world);
        let mut world = || match world.take() {
            Some(world) => Ok(world),
            None => world_of(&plan).map_err(EngineError::from),
        };
        if let Some(step) = step {
            let found = Arc::new(Checkpoints::open(directory, Some(step)).map_err(EngineError::from)?);
            let training = Self::from_checkpoint(plan.clone(), world()?, found, teacher, begins)?;
            return Ok(training.having_done(directory, Vec::new()));
        }
        let mut refused = Vec::new();
        let checkpoints = Checkpoints::of_run(directory);
        let mut before = u64::MAX;
        loop {
            let world = world()?;
            let Some(found) = newest_of_all(&*world, &checkpoints, before, &mut refused)? else {
                check_start_anew(directory, refused)?;
                let (start, state) = (TextStart::default(), initial_state(&plan)?);
                return Self::at(plan.clone(), world, start, state, teacher, begins);
            };
            before = found.manifest().position.step;
            match Self::from_checkpoint(plan.clone(), world, Arc::new(found), teacher, begins) {
                Err(TrainingError::Engine(EngineError::Checkpoint(error)))
                    if error.is_damage() && can_connect_again(&plan) =>
                {
                    refused.push(error);
                }
                Ok(training) => return Ok(training.having_done(directory, refused)),
                failed => return failed,
            }
        }
    }

    /// Checks that [`Training::initialised_from`] would find weights of the plan's model, as far as headers say it. Returns what
    /// their files hold and the model does not use.
    ///
    /// # Errors
    /// When there are no weights, or they are of another model.
    pub fn check_initial_weights(plan: &Plan, path: &Path) -> Result<Vec<Unused>, TrainingError> {
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
        Self::beginning(plan, world, Beginning::Weights(path), None, begins)
    }

    fn from_checkpoint(
        plan: Plan,
        world: Arc<dyn World>,
        found: Arc<CheckpointReader>,
        teacher: &mut Option<Teacher>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        let Position { step, num_samples, .. } = found.manifest().position;
        if step > plan.run().steps {
            let (path, num_steps) = (found.folder().to_owned(), plan.run().steps);
            return Err(EngineError::from(CheckpointError::Beyond { path, step, num_steps }).into());
        }
        let at = TextStart { num_steps: step, num_sequences: num_samples };
        let state = InitialState::Checkpoint(Arc::clone(&found));
        let mut training = Self::at(plan, world, at, state, teacher, begins)?;
        let about = about(training.plan(), &training.batches, training.teacher.as_ref());
        let changes = Changes::since(found.manifest(), &about, training.plan().run());
        training.resumed = Some(Resumed {
            step,
            last_done: step,
            changes,
            refused: Vec::new(),
            from: StepOfStart::of(found.manifest()),
            left: Vec::new(),
            line_faults: LineFaults::default(),
        });
        Ok(training)
    }

    /// The same, with what else is known of the run in this directory that it goes on with.
    fn having_done(self, directory: &Path, refused: Vec<CheckpointError>) -> Self {
        let metrics = directory.join(RunDir::METRICS);
        let of_metrics = MetricsFile::last_step(&metrics);
        let of_checkpoints =
            Checkpoints::of_run(directory).steps().ok().and_then(|steps| steps.last().copied());
        let resumed = self.resumed.map(|resumed| Resumed {
            last_done: [of_metrics, of_checkpoints].into_iter().flatten().fold(resumed.step, u64::max),
            refused,
            left: Checkpoints::of_run(directory).left_after(resumed.step).unwrap_or_default(),
            line_faults: MetricsFile::faults_until(&metrics, resumed.step),
            ..resumed
        });
        Self { resumed, ..self }
    }

    /// Sequences in a step of the run that wrote the checkpoint of a run directory after a step, or its newest that is sound. `None` where it cannot be
    /// read, which is an error where the run goes on from it.
    pub fn batch_of_checkpoint(directory: &Path, step: Option<u64>) -> Option<usize> {
        let found = match step {
            Some(_) => Checkpoints::open(directory, step).ok(),
            None => Checkpoints::of_run(directory).newest_before(u64::MAX, &mut Vec::new()).ok().flatten(),
        };
        let batch = found?.manifest().run.pointer("/batch/train_batch_size")?.as_u64()?;
        usize::try_from(batch).ok()
    }

    fn at(
        plan: Plan,
        world: Arc<dyn World>,
        start: TextStart,
        state: InitialState,
        teacher: &mut Option<Teacher>,
        begins: &mut dyn FnMut(Start),
    ) -> Result<Self, TrainingError> {
        // Before the text is read, which may take minutes.
        Engine::check_hosts(&plan, &*world)?;
        begins(Start::Text);
        let batches = Batches::of(&plan, start)?;
        // A single process has nothing to compare, so it need not read the files for that.
        if !world.has_all_ranks() {
            let (inputs, large) = inputs(&plan, &batches, &state, teacher.as_ref())?;
            let mut progress =
                |num_read_bytes, num_bytes| begins(Start::Comparing { num_read_bytes, num_bytes });
            let compared = compare(&*world, &inputs, &large, &mut progress)?;
            if compared.sampled_bytes > 0 || large.are_verified {
                begins(Start::Compared(compared));
            }
        }
        begins(match &state {
            InitialState::Checkpoint(from) => Start::Resumed { step: from.manifest().position.step },
            InitialState::Drawn => Start::Drawn,
            InitialState::Weights(_) | InitialState::Parameters(_) => Start::Loaded,
        });
        let memory = MemoryWatch::start(&plan, &*world, teacher.as_ref().map(Teacher::memory));
        let mut source = Arc::clone(&batches.training);
        if let Some(teacher) = teacher {
            source = teacher.teach(&plan, source);
        }
        let engine = Engine::with_state(plan, source, world, &state)?;
        if let Some(teacher) = teacher {
            teacher.begin(engine.has_rank_0(), start)?;
        }
        let teacher = teacher.take();
        Ok(Self { engine, batches, traced: None, memory, resumed: None, rescue: None, teacher })
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

    /// The weights that it begins with; `None` where they are drawn, and where a run resumes from a checkpoint.
    pub fn loaded_weights(&self) -> Option<&LoadedWeights> {
        self.engine.loaded_weights()
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
}

/// Whether the ranks of a plan can be connected another time by their processes alone: those of an engine that has some of a job's cannot.
fn can_connect_again(plan: &Plan) -> bool {
    let is_process = || LaunchedProcess::this().ok().flatten().is_some_and(|launched| launched.size > 1);
    plan.run().comm.first_rank.is_none() || !is_process()
}

/// Checks that nothing is lost if a run starts at its first step, after these checkpoints were refused.
fn check_start_anew(directory: &Path, refused: Vec<CheckpointError>) -> Result<(), TrainingError> {
    match CheckpointError::of_all(refused) {
        Some(error) => Err(EngineError::from(error).into()),
        None => Ok(RunDir::check_nothing_is_lost(directory)?),
    }
}
