//! A linear map and a GELU, one kernel after the other, for queues that have none for both.

use super::{Affine, Onto, Queue};
use crate::kernels::linear::LinearShape;
use crate::kernels::matmul::WriteMode;
use crate::memory::{View, ViewMut};

/// As [`Queue::linear_gelu`], which gives GELU the sum as it is stored.
pub(super) fn linear_then_gelu(
    queue: &impl Queue,
    shape: LinearShape,
    x: View<'_>,
    affine: Affine<'_>,
    mut before_gelu: ViewMut<'_>,
    y: ViewMut<'_>,
) {
    queue.linear(shape, x, affine.weight, Onto::Bias(affine.bias), before_gelu.reborrow());
    queue.gelu(before_gelu.view(), y);
}

/// As [`Queue::linear_gelu_backward_input`].
pub(super) fn linear_then_gelu_backward(
    queue: &impl Queue,
    shape: LinearShape,
    dy: View<'_>,
    weight: View<'_>,
    x: ViewMut<'_>,
    mut dx: ViewMut<'_>,
) {
    queue.linear_backward_input(shape, dy, weight, dx.reborrow(), WriteMode::Overwrite);
    queue.gelu_backward(x, dx);
}
