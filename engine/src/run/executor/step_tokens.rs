//! The tokens of a step, on the ranks that read them: allocated once and charged to the rank's ledger.

use pipezero_models::layer::{IGNORED_TARGET, MaskKey, MicroBatchShape, Tokens};
use pipezero_models::{ElementType, ModelError, Queue};
use pipezero_schedule::MicroBatch;

use crate::run::data::TokenBatch;
use crate::run::memory::{Allocator, Category, TrackedBuffer};

/// The tokens of every micro-batch, where kernels read them; empty ones on a rank that reads none.
#[derive(Debug)]
pub(crate) struct StepTokens {
    /// Inputs and targets of each micro-batch.
    micro_batches: Vec<[TrackedBuffer; 2]>,
    /// Where a source writes one micro-batch after the other.
    read: TokenBatch,
}

impl StepTokens {
    /// Tokens of zero, for every micro-batch of a step.
    pub(super) fn zeros(
        num_micro_batches: usize,
        shape: MicroBatchShape,
        memory: &Allocator,
    ) -> Result<Self, ModelError> {
        let read = TokenBatch::zeros(shape.num_sequences, shape.seq_length);
        let zeros = || memory.zeros_of(shape.num_tokens(), ElementType::U32, Category::Activations);
        let micro_batches = (0..num_micro_batches).map(|_| Ok([zeros()?, zeros()?]));
        Ok(Self { micro_batches: micro_batches.collect::<Result<_, ModelError>>()?, read })
    }

    /// What kernels read of a micro-batch.
    pub(super) fn of(&self, micro_batch: MicroBatch, masks: Option<MaskKey>) -> Tokens<'_> {
        let [inputs, targets] = &self.micro_batches[micro_batch.index()];
        Tokens { inputs: inputs.view(), targets: targets.view(), masks }
    }

    /// Leaves a micro-batch without a target that counts.
    pub(super) fn ignore(&mut self, micro_batch: MicroBatch, queue: &dyn Queue) {
        let [inputs, targets] = &mut self.micro_batches[micro_batch.index()];
        self.read.inputs = vec![0; inputs.len()];
        self.read.targets = vec![IGNORED_TARGET; inputs.len()];
        queue.upload(&self.read.inputs, inputs.view_mut());
        queue.upload(&self.read.targets, targets.view_mut());
    }

    /// Sets the tokens of a micro-batch to those that `read` writes.
    pub(super) fn set<E>(
        &mut self,
        micro_batch: MicroBatch,
        queue: &dyn Queue,
        read: impl FnOnce(&mut TokenBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        // Whatever a source that failed has left.
        let [inputs, _] = &self.micro_batches[micro_batch.index()];
        self.read.inputs.resize(inputs.len(), 0);
        self.read.targets.resize(inputs.len(), 0);
        read(&mut self.read)?;
        let [inputs, targets] = &mut self.micro_batches[micro_batch.index()];
        queue.upload(&self.read.inputs, inputs.view_mut());
        queue.upload(&self.read.targets, targets.view_mut());
        Ok(())
    }
}
