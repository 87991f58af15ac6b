//! Products with GELU and its gradient: in one call, where the library has an algorithm for it.

use super::arguments::{Argument, Grid};
use super::operations::rows_of;
use super::products::{Epilogue, Operands, Product};
use super::queue::{CudaQueue, launch};
use crate::kernels::linear::LinearShape;
use crate::memory::{View, ViewMut};
use crate::queue::Affine;
use crate::queue::gelu::{linear_then_gelu, linear_then_gelu_backward};

impl CudaQueue {
    /// As [`Queue::linear_gelu`](crate::queue::Queue::linear_gelu).
    pub(super) fn multiply_then_gelu(
        &self,
        shape: LinearShape,
        x: View<'_>,
        affine: Affine<'_>,
        before_gelu: ViewMut<'_>,
        y: ViewMut<'_>,
    ) {
        let of = x.element_type();
        let [left, right, bias] = [affine.weight, x, affine.bias].map(|view| self.read_of(of, view));
        let [gelu_input, out] = [&before_gelu, &y].map(|view| self.write_of(of, view));
        let product = Product::forward(shape, Epilogue::Gelu, [of; 2]);
        let operands =
            Operands { left, right, onto: None, bias: Some(bias), gelu_input: Some(gelu_input), out };
        if !self.multiply_with_gelu(product, operands) {
            linear_then_gelu(self, shape, x, affine, before_gelu, y);
        }
    }

    /// As [`Queue::linear_gelu_backward_input`](crate::queue::Queue::linear_gelu_backward_input).
    pub(super) fn multiply_then_gelu_backward(
        &self,
        shape: LinearShape,
        dy: View<'_>,
        weight: View<'_>,
        x: ViewMut<'_>,
        dx: ViewMut<'_>,
    ) {
        let of = dy.element_type();
        let [left, right] = [weight, dy].map(|view| self.read_of(of, view));
        let [gelu_input, out] = [&x, &dx].map(|view| self.write_of(of, view));
        let stride = rows_of(dy.len(), shape.num_rows);
        let product = Product::backward_input(shape, stride, Epilogue::GeluGradient, [of; 2]);
        let operands = Operands { left, right, onto: None, bias: None, gelu_input: Some(gelu_input), out };
        if self.multiply_with_gelu(product, operands) {
            let (grid, num_elements) = (Grid::packs(x.len(), of), x.len() as u64);
            launch!(self, of, "gelu", grid, gelu_input, gelu_input, num_elements);
        } else {
            linear_then_gelu_backward(self, shape, dy, weight, x, dx);
        }
    }
}
