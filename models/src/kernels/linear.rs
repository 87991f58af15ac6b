//! The linear map `y = x Wᵀ`, with the weight stored as PyTorch stores it.
//!
//! Legend: N rows, I inputs, O outputs; `x: [N, I]`, `weight: [O, I]`, `y: [N, O]`.

use super::matmul::{Threads, WriteMode, matmul};
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
    /// Floating-point operations of [`forward`], and of each of the two gradients. Saturates: a plan counts them before
    /// sizes are known to be possible.
    pub fn flops(self) -> u64 {
        let sizes = [self.num_rows, self.num_inputs, self.num_outputs];
        sizes.into_iter().fold(2, |flops: u64, size| flops.saturating_mul(size as u64))
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
pub fn forward(shape: LinearShape, x: &[f32], weight: &[f32], y: &mut [f32], mode: WriteMode) {
    let y = MatrixMut::new(y, shape.num_rows, shape.num_outputs);
    matmul(Threads::Pool, y, mode, shape.x(x), shape.weight(weight).transposed());
}

/// `dx = dy W`, or `dx += dy W`.
pub fn backward_input(shape: LinearShape, dy: &[f32], weight: &[f32], dx: &mut [f32], mode: WriteMode) {
    let dx = MatrixMut::new(dx, shape.num_rows, shape.num_inputs);
    matmul(Threads::Pool, dx, mode, shape.y(dy), shape.weight(weight));
}

/// `dweight = dyᵀ x`, or `dweight += dyᵀ x`.
pub fn backward_weight(shape: LinearShape, dy: &[f32], x: &[f32], dweight: &mut [f32], mode: WriteMode) {
    let dweight = MatrixMut::new(dweight, shape.num_outputs, shape.num_inputs);
    matmul(Threads::Pool, dweight, mode, shape.y(dy).transposed(), shape.x(x));
}

#[cfg(test)]
mod tests {
    use super::LinearShape;

    #[test]
    fn operations_are_counted_up_to_the_largest_number() {
        let shape = LinearShape { num_rows: 3, num_inputs: 5, num_outputs: 7 };
        assert_eq!(shape.flops(), 2 * 3 * 5 * 7);
        assert_eq!(LinearShape { num_rows: 1 << 31, num_inputs: 1 << 31, ..shape }.flops(), u64::MAX);
        assert_eq!(LinearShape { num_rows: 1 << 53, num_inputs: 1 << 10, ..shape }.flops(), u64::MAX);
    }
}
