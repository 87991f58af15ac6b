//! Launches of kernels of heads: rotary embeddings and norms; and of SwiGLU.

use super::queue::CudaQueue;
use crate::kernels::attention::AttentionShape;
use crate::kernels::matmul::WriteMode;
use crate::kernels::rope::{Rope, Turn};
use crate::memory::{View, ViewMut};
use crate::queue::HeadWeights;

impl CudaQueue {
    pub(super) fn launch_swiglu(&self, x: View<'_>, y: ViewMut<'_>, width: usize) {
        todo!()
    }
    pub(super) fn launch_swiglu_backward(&self, x: ViewMut<'_>, dy: ViewMut<'_>, width: usize) {
        todo!()
    }
    pub(super) fn launch_rope(&self, shape: AttentionShape, rope: &Rope, turn: Turn, qkv: ViewMut<'_>) {
        todo!()
    }
    pub(super) fn launch_head_norm(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        weights: HeadWeights<'_>,
        y: ViewMut<'_>,
    ) {
        todo!()
    }
    pub(super) fn launch_head_norm_backward_input(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: ViewMut<'_>,
        weights: HeadWeights<'_>,
        dy: View<'_>,
    ) {
        todo!()
    }
    pub(super) fn launch_head_norm_backward_weight(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        dy: View<'_>,
        dweights: [ViewMut<'_>; 2],
        mode: WriteMode,
    ) {
        todo!()
    }
}
