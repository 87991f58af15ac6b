//! Launches of norms.

use super::arguments::{Argument, Grid};
use super::operations::{adds, rows_of};
use super::queue::{CudaQueue, launch};
use crate::element::ElementType::{self, F32};
use crate::kernels::matmul::WriteMode;
use crate::kernels::norm::{Norm, NormKind};
use crate::memory::{View, ViewMut};
use crate::queue::{Affine, NormGradient};

/// Whether rows are normalised around their mean, and have a bias, as `kernels/norm.cuh` has it.
fn has_mean(norm: Norm) -> i32 {
    i32::from(norm.kind == NormKind::Layer)
}

/// The type of some rows, a grid with a warp for each of them, and how many they are.
pub(super) fn warps_of_rows(x: View<'_>, width: usize) -> (ElementType, Grid, u64) {
    let num_rows = rows_of(x.len(), width);
    (x.element_type(), Grid::row_warps(num_rows), num_rows as u64)
}

impl CudaQueue {
    /// Where a bias begins, or the gradient of one; nowhere, where there is none.
    ///
    /// # Panics
    /// If the norm has a bias of another length.
    fn bias_of(&self, norm: Norm, element: ElementType, bias: View<'_>, width: usize) -> u64 {
        assert_eq!(bias.len(), norm.num_biases(width), "elements of the bias");
        if bias.is_empty() { 0 } else { self.read_of(element, bias) }
    }

    /// As [`Queue::norm`](crate::queue::Queue::norm).
    pub(super) fn launch_norm(
        &self,
        norm: Norm,
        x: View<'_>,
        affine: Affine<'_>,
        y: ViewMut<'_>,
        statistics: ViewMut<'_>,
    ) {
        let width = affine.weight.len();
        let (of, grid, num_rows) = warps_of_rows(x, width);
        let weight = self.read_of(of, affine.weight);
        let bias = self.bias_of(norm, of, affine.bias, width);
        let (x, y, statistics) = (self.read_of(of, x), self.write_of(of, &y), self.write(&statistics));
        let (width, epsilon, has_mean) = (width as u32, norm.epsilon, has_mean(norm));
        launch!(
            self,
            of,
            "norm_forward",
            grid,
            x,
            weight,
            bias,
            y,
            statistics,
            num_rows,
            width,
            epsilon,
            has_mean
        );
    }

    /// As [`Queue::norm_statistics`](crate::queue::Queue::norm_statistics).
    pub(super) fn launch_norm_statistics(
        &self,
        norm: Norm,
        x: View<'_>,
        width: usize,
        statistics: ViewMut<'_>,
    ) {
        let (of, grid, num_rows) = warps_of_rows(x, width);
        let (x, statistics) = (self.read_of(of, x), self.write(&statistics));
        let (width, epsilon, has_mean) = (width as u32, norm.epsilon, has_mean(norm));
        launch!(self, of, "norm_statistics", grid, x, statistics, num_rows, width, epsilon, has_mean);
    }

    /// As [`Queue::norm_again`](crate::queue::Queue::norm_again).
    pub(super) fn launch_norm_again(
        &self,
        norm: Norm,
        x: View<'_>,
        affine: Affine<'_>,
        statistics: View<'_>,
        y: ViewMut<'_>,
    ) {
        let width = affine.weight.len();
        let (of, grid, num_rows) = warps_of_rows(x, width);
        let weight = self.read_of(of, affine.weight);
        let bias = self.bias_of(norm, of, affine.bias, width);
        let (x, statistics, y) = (self.read_of(of, x), self.read(statistics), self.write_of(of, &y));
        let (width, has_mean) = (width as u32, has_mean(norm));
        launch!(self, of, "norm_again", grid, x, weight, bias, statistics, y, num_rows, width, has_mean);
    }

    /// As [`Queue::norm_backward_input`](crate::queue::Queue::norm_backward_input).
    pub(super) fn launch_norm_backward_input(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        weight: View<'_>,
        dx: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let NormGradient { x, statistics, dy } = of;
        let width = weight.len();
        let (of, grid, num_rows) = warps_of_rows(x, width);
        let (x, weight) = (self.read_of(of, x), self.read_of(of, weight));
        let (statistics, dy, dx) = (self.read(statistics), self.read_of(of, dy), self.write(&dx));
        let (width, has_mean, add) = (width as u32, has_mean(norm), adds(mode));
        launch!(
            self,
            of,
            "norm_backward_input",
            grid,
            x,
            weight,
            statistics,
            dy,
            dx,
            num_rows,
            width,
            has_mean,
            add
        );
    }

    /// As [`Queue::norm_backward_weight`](crate::queue::Queue::norm_backward_weight).
    pub(super) fn launch_norm_backward_weight(
        &self,
        norm: Norm,
        of: NormGradient<'_>,
        dweight: ViewMut<'_>,
        dbias: ViewMut<'_>,
        mode: WriteMode,
    ) {
        let NormGradient { x, statistics, dy } = of;
        let width = dweight.len();
        let of = x.element_type();
        let (grid, num_rows) = (Grid::columns(width, of), rows_of(x.len(), width) as u64);
        let (x, statistics, dy) = (self.read_of(of, x), self.read(statistics), self.read_of(of, dy));
        let dweight = self.write(&dweight);
        let dbias = self.bias_of(norm, F32, dbias.view(), width);
        let (width, has_mean, add) = (width as u32, has_mean(norm), adds(mode));
        launch!(
            self,
            of,
            "norm_backward_weight",
            grid,
            x,
            statistics,
            dy,
            dweight,
            dbias,
            num_rows,
            width,
            has_mean,
            add
        );
    }
}
