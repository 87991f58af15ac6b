//! The engine from whose logits a student learns.
//!
//! Its ranks compute the logits of the batch that the student's next step reads, and write them to one place in the host's memory, sequence by
//! sequence; the student's source hands them to the ranks of the student that have the head. So neither grid knows of the other: what they have in
//! common is the number of a sequence in its batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_comm::world::World;
use pipezero_files::host;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::digits;
use pipezero_run::data::{BatchError, BatchLayout, BatchSource, NoBatches, Start, TokenBatch};
use pipezero_run::engine::{BatchLogits, Engine, EngineError, Inference, batch_layout};

use super::batches::Batches;
use super::error::TrainingError;
use super::logits_exchange::LogitsExchange;
use super::process_memory::TeacherMemory;
use super::weights_run::state_of;

/// An engine for inference whose logits a student is trained on. It has no steps and no checkpoints of its own.
pub struct Teacher {
    name: String,
    /// `None` in a process that has none of its ranks.
    engine: Option<Engine<Inference>>,
    plan: Plan,
    logits: Arc<BatchLogits>,
    /// The student's batches in its own micro-batches, once the student has them.
    batches: Option<Arc<dyn BatchSource>>,
    /// If teacher and student have ranks in different processes.
    exchange: Option<LogitsExchange>,
    memory: TeacherMemory,
    weights: TeacherWeights,
}

/// What a student's checkpoint says of its teacher.
#[derive(Clone, Debug)]
pub(super) struct TeacherWeights {
    /// Where they were read.
    pub(super) path: PathBuf,
    /// The checksum of [`InitialState::weights_checksum`](pipezero_run::engine::InitialState::weights_checksum); `None` where this process does not see them.
    pub(super) checksum: Option<String>,
}

impl TeacherWeights {
    fn at(plan: &Plan, path: &Path) -> Self {
        let checksum = state_of(plan, path).and_then(|state| state.weights_checksum(plan));
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            checksum: checksum.ok().flatten().map(digits),
        }
    }
}

impl Teacher {
    /// Checks that there are weights of the plan's model, as far as headers say it.
    ///
    /// # Errors
    /// When there are no weights, or they are of another model.
    pub fn check_weights(plan: &Plan, path: &Path) -> Result<(), TrainingError> {
        Ok(state_of(plan, path)?.check_headers(plan).map(drop)?)
    }

    /// Starts its ranks with the weights at `path`: those of a run directory, of a file that [`Engine::save`] wrote, of a checkpoint, or of a folder
    /// of transformers.
    ///
    /// # Errors
    /// When the ranks cannot be started, the weights cannot be read, or the host has no memory for the logits.
    pub fn start(
        name: String,
        plan: Plan,
        world: Arc<dyn World>,
        path: &Path,
    ) -> Result<Self, TrainingError> {
        Self::with_ranks(name, plan, Some(world), path)
    }

    /// As [`Teacher::start`], in a job of processes that `job` connects, of which some have ranks of the teacher, and some of its student. `world` is that
    /// of the teacher's ranks, in the processes that have some.
    ///
    /// # Errors
    /// As those of [`Teacher::start`].
    pub fn in_job(
        name: String,
        plan: Plan,
        world: Option<Arc<dyn World>>,
        path: &Path,
        job: Arc<dyn World>,
    ) -> Result<Self, TrainingError> {
        let teacher = Self::with_ranks(name, plan, world, path)?;
        Ok(Self { exchange: Some(LogitsExchange::over(job)), ..teacher })
    }

    fn with_ranks(
        name: String,
        plan: Plan,
        world: Option<Arc<dyn World>>,
        path: &Path,
    ) -> Result<Self, TrainingError> {
        let plan = plan.without_training();
        let before_bytes = host::resident_bytes();
        let rank_bytes = world.as_ref().map_or(0, |world| {
            let of_logits = plan.micro_batch_logits_bytes(world.local_ranks());
            plan.needed_bytes(world.local_ranks()).saturating_add(of_logits)
        });
        let planned_bytes = rank_bytes.saturating_add(plan.batch_logits_bytes());
        let memory = TeacherMemory { planned_bytes, before_bytes };
        let weights = TeacherWeights::at(&plan, path);
        let start = |plan: Plan| {
            let logits =
                BatchLogits::for_plan(&plan).map_err(|error| EngineError::Logits(Box::new(error)))?;
            let Some(world) = world else { return Ok((None, logits)) };
            let state = state_of(&plan, path)?;
            let source = Arc::new(NoBatches);
            let engine = Engine::for_inference_with(plan, source, world, &state)?;
            Ok((Some(engine), logits))
        };
        match start(plan.clone()) {
            Ok((engine, logits)) => {
                let logits = Arc::new(logits);
                Ok(Self { name, engine, plan, logits, batches: None, exchange: None, memory, weights })
            }
            Err(error) => Err(TrainingError::Teacher { name, error: Box::new(error) }),
        }
    }

    /// By which messages know it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The engine; `None` in a process that has none of its ranks.
    pub fn engine(&self) -> Option<&Engine<Inference>> {
        self.engine.as_ref()
    }

    /// Its weights, as the checkpoint of a student knows them.
    pub(super) fn weights(&self) -> &TeacherWeights {
        &self.weights
    }

    /// What it takes of this process's memory.
    pub(super) fn memory(&self) -> TeacherMemory {
        self.memory
    }

    /// Takes the batches of a student of this plan, which it reads from here on; gives the same with its logits beside the targets, for the
    /// student, whose loss is a [`DistillationLoss`](pipezero_models::DistillationLoss). Plans are of the same batches, vocabulary and length of
    /// sequences.
    pub fn teach(&mut self, student: &Plan, batches: Arc<dyn BatchSource>) -> Arc<dyn BatchSource> {
        let (of, into) = (batch_layout(student), batch_layout(&self.plan));
        self.batches = Some(Arc::new(Regrouped { batches: Arc::clone(&batches), of, into }));
        Arc::new(Taught { batches, layout: of, logits: Arc::clone(&self.logits) })
    }

    /// Computes the logits of the batch that the student reads in a step; before that step, and once it has a student.
    ///
    /// # Errors
    /// When its ranks stop, or cannot read the batch.
    ///
    /// # Panics
    /// If it has no student.
    pub fn compute(&mut self, step: u64) -> Result<(), TrainingError> {
        let said = self.exchange.as_mut().map_or(Ok(()), |exchange| exchange.say_step(Some(step)));
        let computed = said.and_then(|()| self.compute_and_share(step));
        computed.map_err(|error| self.failed(error))
    }

    /// Its student goes on from here; `says` in the process that has the student's rank 0.
    ///
    /// # Errors
    /// When another process fails before it has come as far.
    pub(super) fn begin(&mut self, says: bool, at: Start) -> Result<(), TrainingError> {
        let begun = self.exchange.as_mut().map_or(Ok(at), |exchange| exchange.begin(says, at));
        begun.map(drop).map_err(|error| self.failed(error))
    }

    /// Its student takes no more steps.
    pub(super) fn end(&mut self) {
        if let Some(exchange) = &mut self.exchange
            && let Err(error) = exchange.say_step(None)
        {
            // It has failed itself, and says so.
            tracing::debug!(%error, "the teacher does not hear that its student has ended");
        }
    }

    /// Whether one of its processes has been asked to end, and so its student is.
    pub(super) fn is_interrupted(&self) -> bool {
        self.exchange.as_ref().is_some_and(LogitsExchange::is_interrupted)
    }

    /// Computes the logits of each batch of a student of this plan until the student ends, in a process that has none of the student's ranks.
    ///
    /// # Errors
    /// When the student's data cannot be read, its ranks stop, or they cannot read a batch.
    pub fn serve(&mut self, student: &Plan, is_interrupted: &dyn Fn() -> bool) -> Result<(), TrainingError> {
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        // Where the student does not go on, it says why.
        let Ok(at) = exchange.begin(false, Start::default()) else { return Ok(()) };
        let batches = Batches::of(student, at)?;
        self.teach(student, batches.training);
        while let Some(exchange) = &mut self.exchange
            && let Ok(Some(step)) = exchange.hear_step(is_interrupted())
        {
            self.compute_and_share(step)?;
        }
        Ok(())
    }

    /// Computes the logits of a batch, and gives them to all processes.
    fn compute_and_share(&mut self, step: u64) -> Result<(), EngineError> {
        let batches = self.batches.as_ref().expect("a student gives its batches before its first step");
        let Some(exchange) = &self.exchange else {
            let engine = self.engine.as_mut().expect("a teacher without an exchange has its ranks here");
            return engine.batch_logits(batches, step, &self.logits);
        };
        let (computed, local) = match &mut self.engine {
            Some(engine) => (engine.own_batch_logits(batches, step, &self.logits), engine.local_ranks()),
            None => (Ok(()), 0..0),
        };
        exchange.agree(computed)?;
        exchange.share(&self.plan, &local, &self.logits)
    }

    fn failed(&self, error: EngineError) -> TrainingError {
        TrainingError::Teacher { name: self.name.clone(), error: Box::new(error) }
    }
}

/// A student's batches with the logits of its teacher.
struct Taught {
    batches: Arc<dyn BatchSource>,
    layout: BatchLayout,
    logits: Arc<BatchLogits>,
}

impl BatchSource for Taught {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        self.batches.micro_batch(step, data_rank, micro_batch, batch)?;
        if batch.num_loss_inputs > 0 {
            let seq_length = batch.inputs.len() / self.layout.micro_batch_size;
            for sequence in self.layout.sequences(data_rank, micro_batch) {
                self.logits.read(sequence, seq_length, |rows| batch.loss_inputs.extend_from_slice(rows));
            }
        }
        Ok(())
    }

    fn seq_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> Option<usize> {
        self.batches.seq_length(step, data_rank, micro_batch)
    }

    fn epoch(&self, step: u64) -> f64 {
        self.batches.epoch(step)
    }
}

/// The same sequences in micro-batches of another size and on another number of data ranks. A micro-batch of shorter and longer sequences
/// has the length of the longest: attention is causal, so what is behind a sequence's end changes none of its logits.
struct Regrouped {
    batches: Arc<dyn BatchSource>,
    of: BatchLayout,
    into: BatchLayout,
}

impl Regrouped {
    /// The micro-batches that some of these sequences are in, as data rank and number, with the length of each.
    fn parts(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
    ) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let sequences = self.into.sequences(data_rank, micro_batch);
        let size = self.of.micro_batch_size;
        (sequences.start / size..sequences.end.div_ceil(size)).map(move |number| {
            let (data_rank, micro_batch) =
                (number / self.of.num_micro_batches, number % self.of.num_micro_batches);
            let seq_length = self.batches.seq_length(step, data_rank, micro_batch);
            (data_rank, micro_batch, seq_length.unwrap_or(self.of.seq_length))
        })
    }
}

impl BatchSource for Regrouped {
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let own = self.into.sequences(data_rank, micro_batch);
        let seq_length = batch.inputs.len() / self.into.micro_batch_size;
        for (data_rank, micro_batch, length) in self.parts(step, data_rank, micro_batch) {
            let mut read = TokenBatch::zeros(self.of.micro_batch_size, length);
            self.batches.micro_batch(step, data_rank, micro_batch, &mut read)?;
            let sequences = self.of.sequences(data_rank, micro_batch);
            for (row, sequence) in sequences.enumerate().filter(|(_, sequence)| own.contains(sequence)) {
                batch.copy_row(
                    &read,
                    row * length..(row + 1) * length,
                    (sequence - own.start) * seq_length,
                    seq_length,
                );
            }
        }
        Ok(())
    }

    fn seq_length(&self, step: u64, data_rank: usize, micro_batch: usize) -> Option<usize> {
        self.parts(step, data_rank, micro_batch).map(|(.., length)| length).max()
    }
}
