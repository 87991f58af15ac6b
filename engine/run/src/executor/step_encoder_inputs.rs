//! The inputs of a rank's input encoder for each micro-batch of a step: allocated once, for the largest inputs.

use pipezero_comm::memory::{Allocator, Category, TrackedBuffer};
use pipezero_models::input_encoder::{EncoderInputs, EncoderSpec, InputShape, NO_ROW};
use pipezero_models::layer::MicroBatchShape;
use pipezero_models::{ElementType, ModelError, Queue};

use crate::data::EncoderBatch;

/// The inputs of an input encoder for one micro-batch, where kernels read them.
#[derive(Debug)]
pub(super) struct StepEncoderInputs {
    shapes: Vec<InputShape>,
    /// f32.
    values: TrackedBuffer,
    /// `[B, T]`.
    rows: TrackedBuffer,
    /// Those of the host, before they are uploaded.
    read_rows: Vec<u32>,
}

impl StepEncoderInputs {
    pub(super) fn zeros(
        num_values: usize,
        shape: MicroBatchShape,
        memory: &Allocator,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            shapes: Vec::new(),
            values: memory.zeros(num_values, Category::Activations)?,
            rows: memory.zeros_of(shape.num_tokens(), ElementType::U32, Category::Activations)?,
            read_rows: Vec::with_capacity(shape.num_tokens()),
        })
    }

    /// Takes inputs, which must have been checked against `spec`.
    pub(super) fn set(
        &mut self,
        spec: &EncoderSpec,
        batch: &EncoderBatch,
        num_tokens: usize,
        queue: &dyn Queue,
    ) {
        self.shapes.clear();
        self.shapes.extend(batch.shapes());
        if self.shapes.is_empty() {
            return;
        }
        self.read_rows.clear();
        self.read_rows.resize(num_tokens, NO_ROW);
        for (index, input) in batch.iter().enumerate() {
            let to = spec.values_of(index, self.shapes[index]);
            queue.upload_floats(input.values, self.values.view_mut().range(to));
            for (row, &token) in input.tokens.iter().enumerate() {
                self.read_rows[token] = spec.row(index, row);
            }
        }
        queue.upload(&self.read_rows, self.rows.view_mut().range(0..num_tokens));
    }

    /// What the layer is given.
    pub(super) fn inputs(&self, shape: MicroBatchShape) -> EncoderInputs<'_> {
        let rows = self.rows.view().range(0..shape.num_tokens());
        EncoderInputs { shapes: &self.shapes, values: self.values.view(), rows }
    }
}
