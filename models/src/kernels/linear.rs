//! The linear map `y = x Wᵀ`, with the weight stored as PyTorch stores it.
//!
//! Legend: N rows, I inputs, O outputs; `x: [N, I]`, `weight: [O, I]`, `y: [N, O]`.

use super::matmul::{Store, Threads, matmul};
use super::matrix::{Matrix, MatrixMut};

/// The sizes of a linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    /// N.
    pub num_rows: usize,
    /// I.
    pub num_inputs: usize,
    /// O.
    pub num_outputs: usize,
}

impl LinearShape {
    /// Floating-point operations of [`forward`], and of each of the two gradients.
    pub fn flops(self) -> u64 {
        2 * self.num_rows as u64 * self.num_inputs as u64 * self.num_outputs as u64
    }

    fn x(self, x: &[f32]) -> Matrix<'_> {
        Matrix::new(x, self.num_rows, self.num_inputs)
    }

    fn weight(self, weight: &[f32]) -> Matrix<'_> {
        Matrix::new(weight, self.num_outputs, self.num_inputs)
    }

    fn y(self, y: &[f32]) -> Matrix<'_> {
        Matrix::new(y, self.num_rows, self.num_outputs)
    }
}

/// `y = x Wᵀ`, or `y += x Wᵀ` onto a bias or a residual.
pub fn forward(shape: LinearShape, x: &[f32], weight: &[f32], y: &mut [f32], store: Store) {
    let y = MatrixMut::new(y, shape.num_rows, shape.num_outputs);
    matmul(Threads::Pool, y, store, shape.x(x), shape.weight(weight).transposed());
}

/// `dx = dy W`.
pub fn backward_input(shape: LinearShape, dy: &[f32], weight: &[f32], dx: &mut [f32]) {
    let dx = MatrixMut::new(dx, shape.num_rows, shape.num_inputs);
    matmul(Threads::Pool, dx, Store::Assign, shape.y(dy), shape.weight(weight));
}

/// `dweight += dyᵀ x`.
pub fn backward_weight(shape: LinearShape, dy: &[f32], x: &[f32], dweight: &mut [f32]) {
    let dweight = MatrixMut::new(dweight, shape.num_outputs, shape.num_inputs);
    matmul(Threads::Pool, dweight, Store::Add, shape.y(dy).transposed(), shape.x(x));
}
