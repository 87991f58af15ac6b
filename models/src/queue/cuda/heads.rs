//! Launches of kernels of heads: rotary embeddings and norms.

use super::arguments::{Argument, AttentionSizes, Grid, RopeAngles};
use super::norm::warps_of_rows;
use super::operations::{adds, rows_of};
use super::queue::{CudaQueue, launch};
use crate::kernels::attention::AttentionShape;
use crate::kernels::matmul::WriteMode;
use crate::memory::{View, ViewMut};
use crate::queue::{HeadWeights, Rotation};

impl CudaQueue {
    /// As [`Queue::rope`](crate::queue::Queue::rope).
    ///
    /// # Panics
    /// If there is not one frequency for every two elements of a head.
    pub(super) fn launch_rope(&self, shape: AttentionShape, rotation: Rotation<'_>, qkv: ViewMut<'_>) {
        let Rotation { rope, turn, document_starts } = rotation;
        let num_pairs = rope.frequencies.len();
        assert_eq!(2 * num_pairs, shape.head_size, "elements of a head and of the pairs that are turned");
        let num_threads = rows_of(qkv.len(), shape.qkv_width()) * num_pairs;
        let (grid, of) = (Grid::elements(num_threads), qkv.element_type());
        let (angles, sizes) = (RopeAngles::of(rope, turn), AttentionSizes::of(shape));
        let (starts, qkv, num_threads) =
            (self.read_any_words(document_starts), self.write_of(of, &qkv), num_threads as u64);
        launch!(self, of, "rope", grid, angles, starts, qkv, sizes, num_threads);
    }

    /// As [`Queue::head_norm`](crate::queue::Queue::head_norm).
    pub(super) fn launch_head_norm(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        weights: HeadWeights<'_>,
        y: ViewMut<'_>,
    ) {
        let (of, grid, num_rows) = warps_of_rows(x, shape.head_size);
        let sizes = AttentionSizes::of(shape);
        let [queries, keys] = [weights.queries, weights.keys].map(|weight| self.read_of(of, weight));
        let (x, y) = (self.read_of(of, x), self.write_of(of, &y));
        launch!(self, of, "head_norm", grid, x, queries, keys, y, sizes, num_rows, epsilon);
    }

    /// As [`Queue::head_norm_backward_input`](crate::queue::Queue::head_norm_backward_input).
    pub(super) fn launch_head_norm_backward_input(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: ViewMut<'_>,
        weights: HeadWeights<'_>,
        dy: View<'_>,
    ) {
        let (of, grid, num_rows) = warps_of_rows(x.view(), shape.head_size);
        let sizes = AttentionSizes::of(shape);
        let [queries, keys] = [weights.queries, weights.keys].map(|weight| self.read_of(of, weight));
        let (x, dy) = (self.write_of(of, &x), self.read_of(of, dy));
        let kernel = "head_norm_backward_input";
        launch!(self, of, kernel, grid, x, queries, keys, dy, sizes, num_rows, epsilon);
    }

    /// As [`Queue::head_norm_backward_weight`](crate::queue::Queue::head_norm_backward_weight).
    pub(super) fn launch_head_norm_backward_weight(
        &self,
        shape: AttentionShape,
        epsilon: f32,
        x: View<'_>,
        dy: View<'_>,
        dweights: [ViewMut<'_>; 2],
        mode: WriteMode,
    ) {
        let of = x.element_type();
        let (size, all) = (shape.head_size, x.len());
        let (grid, num_tokens) = (Grid::columns(size, of), rows_of(all, shape.qkv_width()) as u64);
        let (sizes, add) = (AttentionSizes::of(shape), adds(mode));
        let first_heads = [0, shape.num_heads];
        let num_heads = [shape.num_heads, shape.num_kv_heads];
        for ((dweight, first), num_heads) in dweights.into_iter().zip(first_heads).zip(num_heads) {
            let [x, dy] = [x, dy].map(|of_all| self.read_of(of, of_all.range(first * size..all)));
            let (dweight, num_heads) = (self.write(&dweight), num_heads as u32);
            let kernel = "head_norm_backward_weight";
            launch!(self, of, kernel, grid, x, dy, dweight, sizes, num_heads, num_tokens, epsilon, add);
        }
    }
}
