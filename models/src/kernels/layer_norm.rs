//! Layer normalisation (arXiv:1607.06450) over each row.
//!
//! Legend: N rows, C columns; `x, y, dy, dx: [N, C]`, `weight, bias: [C]`, `statistics: [N, 2]`, each row's mean and
//! reciprocal standard deviation.

use super::columns;
use super::matmul::Store;
use super::parallel::{for_blocks, read, write};
use super::row;

/// Added to the variance, as in GPT-2.
pub const EPSILON: f32 = 1e-5;

/// The weight and bias of a norm.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a> {
    /// `[C]`
    pub weight: &'a [f32],
    /// `[C]`
    pub bias: &'a [f32],
}

/// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`; keeps the statistics.
pub fn forward(x: &[f32], affine: Affine<'_>, y: &mut [f32], statistics: &mut [f32]) {
    let width = affine.weight.len();
    for_blocks(
        (write(y, width), write(statistics, 2), read(x, width)),
        #[inline(always)]
        |(y, statistics, x)| {
            let rows = y.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact(width));
            for ((y, x), statistics) in rows.zip(statistics.elements.chunks_exact_mut(2)) {
                let mean = row::sum(x, |x| x) / width as f32;
                let variance = row::sum(x, |x| (x - mean) * (x - mean)) / width as f32;
                let scale = 1.0 / (variance + EPSILON).sqrt();
                statistics.copy_from_slice(&[mean, scale]);
                normalise_row(x, affine, mean, scale, y);
            }
        },
    );
}

/// `y` once more, from the statistics that [`forward`] kept: the same bits for less memory than keeping it.
pub fn recompute(x: &[f32], affine: Affine<'_>, statistics: &[f32], y: &mut [f32]) {
    let width = affine.weight.len();
    for_blocks(
        (write(y, width), read(statistics, 2), read(x, width)),
        #[inline(always)]
        |(y, statistics, x)| {
            let rows = y.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact(width));
            for ((y, x), statistics) in rows.zip(statistics.elements.chunks_exact(2)) {
                normalise_row(x, affine, statistics[0], statistics[1], y);
            }
        },
    );
}

#[inline(always)]
fn normalise_row(x: &[f32], affine: Affine<'_>, mean: f32, scale: f32, y: &mut [f32]) {
    for (((y, x), weight), bias) in y.iter_mut().zip(x).zip(affine.weight).zip(affine.bias) {
        *y = (x - mean) * scale * weight + bias;
    }
}

/// `dx = scale * (g - mean(g) - n * mean(g * n))` with `g = dy * weight` and `n` the normalised row; assigned to `dx`
/// or added to it, as onto a residual's gradient.
pub fn backward_input(
    x: &[f32],
    weight: &[f32],
    statistics: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    store: Store,
) {
    let width = weight.len();
    for_blocks(
        (write(dx, width), read(dy, width), read(x, width), read(statistics, 2)),
        #[inline(always)]
        |(dx, dy, x, statistics)| {
            let inputs = x.elements.chunks_exact(width).zip(statistics.elements.chunks_exact(2));
            let rows = dx.elements.chunks_exact_mut(width).zip(dy.elements.chunks_exact(width));
            for ((dx, dy), (x, statistics)) in rows.zip(inputs) {
                let (mean, scale) = (statistics[0], statistics[1]);
                let mean_g = row::sum_pairs(dy, weight, |dy, weight| dy * weight) / width as f32;
                let mean_gn = row::sum_triples(dy, weight, x, |dy, weight, x| dy * weight * (x - mean))
                    * scale
                    / width as f32;
                for (((dx, dy), x), weight) in dx.iter_mut().zip(dy).zip(x).zip(weight) {
                    let n = (x - mean) * scale;
                    let value = scale * (dy * weight - mean_g - n * mean_gn);
                    *dx = if store == Store::Add { *dx + value } else { value };
                }
            }
        },
    );
}

/// `dweight += ` the sum over rows of `dy * n`, and `dbias += ` that of `dy`, in row order.
pub fn backward_weight(x: &[f32], statistics: &[f32], dy: &[f32], dweight: &mut [f32], dbias: &mut [f32]) {
    let width = dweight.len();
    columns::add_sums(
        dweight,
        statistics.len() / 2,
        #[inline(always)]
        |row, columns, sums| {
            let (mean, scale) = (statistics[2 * row], statistics[2 * row + 1]);
            let (x, dy) = (&x[row * width..][columns.clone()], &dy[row * width..][columns]);
            for ((sum, x), dy) in sums.iter_mut().zip(x).zip(dy) {
                *sum += dy * ((x - mean) * scale);
            }
        },
    );
    super::bias::backward(dbias, dy);
}
