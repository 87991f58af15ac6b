//! The inputs that an input encoder gets with a micro-batch, and how many there can be.

use std::ops::Range;

use crate::layer::MicroBatchShape;
use crate::layout::aligned;
use crate::memory::View;

/// In [`EncoderInputs::rows`], of a token to which nothing is added.
pub const NO_ROW: u32 = u32::MAX;

/// One input of an input encoder: rows of numbers, of which one module makes as many rows of the model's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputShape {
    /// Which module it is for, from 0.
    pub module: usize,
    /// Its rows, at least one.
    pub num_rows: usize,
}

/// The inputs of an input encoder for one micro-batch.
#[derive(Clone, Copy, Debug)]
pub struct EncoderInputs<'a> {
    /// The inputs in their order.
    pub shapes: &'a [InputShape],
    /// f32: the rows of each input, one behind the other, in the place that [`EncoderSpec::values_of`] says.
    pub values: View<'a>,
    /// `[B, T]` of `u32`: the row that is added to each token, which is row `r` of input `k` as the number [`EncoderSpec::row`], or [`NO_ROW`].
    pub rows: View<'a>,
}

/// How many inputs an input encoder has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderLimits {
    /// Inputs of a sequence, on the average of a micro-batch.
    pub inputs_per_sequence: usize,
    /// Rows of an input.
    pub rows_per_input: usize,
}

/// Which inputs an input encoder takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncoderSpec {
    /// Numbers in a row of an input, for each module.
    pub widths: Vec<usize>,
    /// Inputs of a sequence, on the average of a micro-batch at most.
    pub inputs_per_sequence: usize,
    /// Rows of an input at most.
    pub rows_per_input: usize,
}

impl EncoderSpec {
    /// Inputs of a micro-batch at most.
    pub fn num_inputs(&self, shape: MicroBatchShape) -> usize {
        shape.num_sequences * self.inputs_per_sequence
    }

    /// Rows of all inputs of a micro-batch at most.
    pub fn num_rows(&self, shape: MicroBatchShape) -> usize {
        self.num_inputs(shape) * self.rows_per_input
    }

    /// Elements of [`EncoderInputs::values`].
    pub fn num_values(&self, shape: MicroBatchShape) -> usize {
        self.num_inputs(shape) * self.values_per_input()
    }

    /// Where the values of input `k` lie.
    ///
    /// # Panics
    /// If there is no such module.
    pub fn values_of(&self, index: usize, input: InputShape) -> Range<usize> {
        let start = index * self.values_per_input();
        start..start + input.num_rows * self.widths[input.module]
    }

    /// The number of a row of input `index`.
    pub fn row(&self, index: usize, row: usize) -> u32 {
        (index * self.rows_per_input + row) as u32
    }

    fn values_per_input(&self) -> usize {
        aligned(self.rows_per_input * self.widths.iter().max().copied().unwrap_or(0))
    }
}
