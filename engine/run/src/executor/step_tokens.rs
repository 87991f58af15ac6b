//! The tokens of a step, on the ranks that read them: allocated once and charged to the rank's ledger.

use pipezero_comm::memory::{Allocator, Category, Charge, TrackedBuffer};
use pipezero_models::input_encoder::EncoderSpec;
use pipezero_models::layer::{IGNORED_TARGET, MaskKey, MicroBatchShape, Tokens};
use pipezero_models::{ElementType, ModelError, Queue, View};
use pipezero_plan::TokensRead;
use pipezero_schedule::MicroBatch;

use super::step_encoder_inputs::StepEncoderInputs;
use crate::data::TokenBatch;

/// The tokens of every micro-batch, where kernels read them; empty ones on a rank that reads none.
#[derive(Debug)]
pub(crate) struct StepTokens {
    micro_batches: Vec<MicroBatchTokens>,
    /// Where a source writes one micro-batch after the other.
    read: TokenBatch,
    /// Which inputs the model's input encoder takes.
    encoder: Option<EncoderSpec>,
    /// The values for the loss that it writes.
    _read_loss_inputs: Charge,
}

#[derive(Debug)]
struct MicroBatchTokens {
    inputs: TrackedBuffer,
    targets: TrackedBuffer,
    /// None where every row is one document.
    document_starts: Option<TrackedBuffer>,
    /// None where the rank has no input encoder.
    encoder_inputs: Option<StepEncoderInputs>,
    /// None where no loss reads them.
    loss_inputs: Option<TrackedBuffer>,
    /// Whether the source gave them.
    has_loss_inputs: bool,
}

impl StepTokens {
    /// Tokens of zero, for every micro-batch of a step.
    pub(super) fn zeros(
        num_micro_batches: usize,
        reads: TokensRead,
        encoder: Option<&EncoderSpec>,
        memory: &Allocator,
    ) -> Result<Self, ModelError> {
        let zeros = |len| memory.zeros_of(len, ElementType::U32, Category::Activations);
        let (num_tokens, num_starts) = (reads.num_tokens(), reads.num_document_starts());
        let micro_batches = (0..num_micro_batches).map(|_| {
            let document_starts = if num_starts == 0 { None } else { Some(zeros(num_starts)?) };
            let encoder_inputs = reads
                .encoder_values
                .map(|num_values| StepEncoderInputs::zeros(num_values, reads.shape, memory));
            let loss_inputs = match reads.num_loss_inputs() {
                0 => None,
                len => Some(memory.zeros(len, Category::Activations)?),
            };
            Ok(MicroBatchTokens {
                inputs: zeros(num_tokens)?,
                targets: zeros(num_tokens)?,
                document_starts,
                encoder_inputs: encoder_inputs.transpose()?,
                loss_inputs,
                has_loss_inputs: false,
            })
        });
        let micro_batches = micro_batches.collect::<Result<_, ModelError>>()?;
        // A rank that reads nothing never asks for a micro-batch.
        let num_read = if reads.is_any() { reads.shape.num_tokens() } else { 0 };
        let read = TokenBatch::zeros(1, num_read).with_loss_inputs(reads.loss.per_token);
        let read_loss_inputs = memory.charge(reads.num_loss_inputs(), Category::Activations);
        Ok(Self { micro_batches, read, encoder: encoder.cloned(), _read_loss_inputs: read_loss_inputs })
    }

    /// What kernels read of a micro-batch of this shape.
    pub(super) fn of(
        &self,
        micro_batch: MicroBatch,
        shape: MicroBatchShape,
        masks: Option<MaskKey>,
    ) -> Tokens<'_> {
        let MicroBatchTokens {
            inputs,
            targets,
            document_starts,
            encoder_inputs,
            loss_inputs,
            has_loss_inputs,
        } = &self.micro_batches[micro_batch.index()];
        let [inputs, targets] = [inputs, targets].map(|of| first(of, shape));
        let loss_inputs = loss_inputs.as_ref().filter(|_| *has_loss_inputs);
        let num_loss_inputs = self.read.num_loss_inputs * shape.num_tokens();
        let loss_inputs = loss_inputs.map(|inputs| inputs.view().range(0..num_loss_inputs));
        let document_starts = document_starts.as_ref().map(|starts| first(starts, shape));
        let encoder_inputs = encoder_inputs.as_ref().map(|given| given.inputs(shape));
        Tokens { inputs, targets, document_starts, loss_inputs, masks, encoder_inputs }
    }

    /// Leaves a micro-batch without a target that counts.
    pub(super) fn ignore(&mut self, micro_batch: MicroBatch, shape: MicroBatchShape, queue: &dyn Queue) {
        self.read.reset(shape.num_tokens());
        self.read.inputs.fill(0);
        self.read.targets.fill(IGNORED_TARGET);
        self.read.clear_loss_inputs();
        self.upload(micro_batch, queue);
    }

    /// Sets the tokens of a micro-batch to those that `read` writes.
    pub(super) fn set<E>(
        &mut self,
        micro_batch: MicroBatch,
        shape: MicroBatchShape,
        queue: &dyn Queue,
        read: impl FnOnce(&mut TokenBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read.reset(shape.num_tokens());
        read(&mut self.read)?;
        self.upload(micro_batch, queue);
        Ok(())
    }

    /// Hands the micro-batch that was read to kernels, as far as the rank's own read it.
    fn upload(&mut self, micro_batch: MicroBatch, queue: &dyn Queue) {
        let MicroBatchTokens {
            inputs,
            targets,
            document_starts,
            encoder_inputs,
            loss_inputs,
            has_loss_inputs,
        } = &mut self.micro_batches[micro_batch.index()];
        if !inputs.is_empty() {
            let read = 0..self.read.inputs.len();
            queue.upload(&self.read.inputs, inputs.view_mut().range(read.clone()));
            queue.upload(&self.read.targets, targets.view_mut().range(read));
        }
        if let Some(starts) = document_starts {
            let read = 0..self.read.document_starts.len();
            queue.upload(&self.read.document_starts, starts.view_mut().range(read));
        }
        if let (Some(given), Some(spec)) = (encoder_inputs, &self.encoder) {
            given.set(spec, &self.read.encoder_inputs, self.read.inputs.len(), queue);
        }
        *has_loss_inputs = !self.read.loss_inputs.is_empty();
        if let Some(inputs) = loss_inputs.as_mut().filter(|_| *has_loss_inputs) {
            let read = 0..self.read.loss_inputs.len();
            queue.upload_floats(&self.read.loss_inputs, inputs.view_mut().range(read));
        }
    }
}

/// The words of a micro-batch of this shape; none where the rank reads none.
fn first(words: &TrackedBuffer, shape: MicroBatchShape) -> View<'_> {
    words.view().range(0..shape.num_tokens().min(words.len()))
}
