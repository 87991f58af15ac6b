//! What a front is given with a micro-batch, and how much of it there can be.

use std::ops::Range;

use crate::layer::MicroBatchShape;
use crate::layout::aligned;
use crate::memory::View;

/// In [`FrontInputs::rows`], of a token to which nothing is added.
pub const NO_ROW: u32 = u32::MAX;

/// One input of a front: rows of numbers, of which one module makes as many rows of the model's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which module it is for, from 0.
    pub module: usize,
    /// Its rows, at least one.
    pub num_rows: usize,
}

/// The inputs of a front for one micro-batch.
#[derive(Clone, Copy, Debug)]
pub struct FrontInputs<'a> {
    /// The inputs in their order.
    pub pieces: &'a [Piece],
    /// f32: the rows of each piece, one behind the other, in the place that [`FrontSpec::values_of`] says.
    pub values: View<'a>,
    /// `[B, T]` of `u32`: the row that is added to each token, which is row `r` of piece `k` as the number [`FrontSpec::row`], or [`NO_ROW`].
    pub rows: View<'a>,
}

/// What a front can be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontSpec {
    /// Numbers in a row of an input, for each module.
    pub widths: Vec<usize>,
    /// Inputs of a sequence, on the average of a micro-batch at most.
    pub pieces_per_sequence: usize,
    /// Rows of an input at most.
    pub rows_per_piece: usize,
}

impl FrontSpec {
    /// Inputs of a micro-batch at most.
    pub fn num_pieces(&self, shape: MicroBatchShape) -> usize {
        shape.num_sequences * self.pieces_per_sequence
    }

    /// Rows of all inputs of a micro-batch at most.
    pub fn num_rows(&self, shape: MicroBatchShape) -> usize {
        self.num_pieces(shape) * self.rows_per_piece
    }

    /// Elements of [`FrontInputs::values`].
    pub fn num_values(&self, shape: MicroBatchShape) -> usize {
        self.num_pieces(shape) * self.values_per_piece()
    }

    /// Where the values of piece `k` lie.
    ///
    /// # Panics
    /// If there is no such module.
    pub fn values_of(&self, index: usize, piece: Piece) -> Range<usize> {
        let start = index * self.values_per_piece();
        start..start + piece.num_rows * self.widths[piece.module]
    }

    /// The number of a row of piece `index`.
    pub fn row(&self, index: usize, row: usize) -> u32 {
        (index * self.rows_per_piece + row) as u32
    }

    fn values_per_piece(&self) -> usize {
        aligned(self.rows_per_piece * self.widths.iter().max().copied().unwrap_or(0))
    }
}
