//! The engine from whose logits a student learns.
//!
//! Its ranks compute the logits of the batch that the student's next step reads, and write them to one place in the host's memory, sequence by
//! sequence; the student's source hands them to the ranks of the student that have the head. So neither grid knows of the other: what they have in
//! common is the number of a sequence in its batch.

use std::path::Path;
use std::sync::Arc;

use super::error::TrainingError;
use super::weights_run::state_of;
use crate::plan::{Plan, Purpose};
use crate::run::data::{BatchError, BatchLayout, BatchSource, NoBatches, TokenBatch};
use crate::run::engine::{BatchLogits, Engine, EngineError, batch_layout};
use crate::run::world::World;

/// An engine for inference whose logits a student is trained on. It has no steps and no checkpoints of its own.
pub struct Teacher {
    name: String,
    engine: Engine,
    logits: Arc<BatchLogits>,
    /// The student's batches in its own micro-batches, once the student has them.
    batches: Option<Arc<dyn BatchSource>>,
}

impl Teacher {
    /// Checks that there are weights of the plan's model, as far as headers say it.
    ///
    /// # Errors
    /// When there are no weights, or they are of another model.
    pub fn check_weights(plan: &Plan, path: &Path) -> Result<(), TrainingError> {
        Ok(state_of(plan, path)?.check_headers(plan)?)
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
        let start = |plan: Plan| {
            let state = state_of(&plan, path)?;
            let logits =
                BatchLogits::for_plan(&plan).map_err(|error| EngineError::Logits(Box::new(error)))?;
            let source = Arc::new(NoBatches);
            let engine = Engine::with_state(plan, source, Purpose::Inference, world, &state)?;
            Ok((engine, logits))
        };
        match start(plan) {
            Ok((engine, logits)) => Ok(Self { name, engine, logits: Arc::new(logits), batches: None }),
            Err(error) => Err(TrainingError::Teacher { name, error: Box::new(error) }),
        }
    }

    /// What people call the devices that compute.
    pub fn device_name(&self) -> String {
        self.engine.device_name()
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Takes the batches of a student of this plan, which it reads from here on; gives the same with its logits beside the targets, for the
    /// student, whose loss is a [`DistillationLoss`](pipezero_models::DistillationLoss). Plans are of the same batches, vocabulary and length of
    /// sequences.
    pub fn teach(&mut self, student: &Plan, batches: Arc<dyn BatchSource>) -> Arc<dyn BatchSource> {
        let (of, into) = (batch_layout(student), batch_layout(self.engine.plan()));
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
        let batches = self.batches.as_ref().expect("a student gives its batches before its first step");
        let computed = self.engine.batch_logits(batches, step, &self.logits);
        computed.map_err(|error| TrainingError::Teacher { name: self.name.clone(), error: Box::new(error) })
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
