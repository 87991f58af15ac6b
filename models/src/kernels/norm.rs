//! Norms over each row: layer normalisation (arXiv:1607.06450), and RMS normalisation (arXiv:1910.07467), which is the same with a mean
//! of zero and without a bias.
//!
//! Legend: N rows, C columns; `x, y, dy, dx: [N, C]`, `weight, bias: [C]`, `statistics: [N, 2]`, each row's mean and
//! reciprocal standard deviation.

use super::columns;
use super::matmul::WriteMode;
use super::parallel::{check_rows, for_blocks, read, write};
use super::row;

/// How rows are normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Around what.
    pub kind: NormKind,
    /// Added to the variance, or to the mean square.
    pub epsilon: f32,
}

/// Around what rows are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Around their mean, with a bias.
    Layer,
    /// Around zero, without a bias: its view is empty, and so is that of its gradient.
    Rms,
}

impl Norm {
    /// GPT-2's.
    pub const GPT2: Self = Self { kind: NormKind::Layer, epsilon: 1e-5 };
}

/// The weight and bias of a norm.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'a> {
    /// `[C]`
    pub weight: &'a [f32],
    /// `[C]`, or empty for an RMS norm.
    pub bias: &'a [f32],
}

impl Affine<'_> {
    /// C.
    ///
    /// # Panics
    /// If a layer norm's weight and bias differ in length, or if an RMS norm has a bias.
    fn width(self, norm: Norm) -> usize {
        assert_eq!(self.bias.len(), norm.num_biases(self.weight.len()), "elements of the bias");
        self.weight.len()
    }
}

impl Norm {
    /// Elements of the bias of a norm of this width.
    pub fn num_biases(self, width: usize) -> usize {
        match self.kind {
            NormKind::Layer => width,
            NormKind::Rms => 0,
        }
    }

    #[inline(always)]
    fn row_statistics(self, x: &[f32]) -> [f32; 2] {
        let mean = match self.kind {
            NormKind::Layer => row::sum(x, |x| x) / x.len() as f32,
            NormKind::Rms => 0.0,
        };
        let variance = row::sum(x, |x| (x - mean) * (x - mean)) / x.len() as f32;
        [mean, 1.0 / (variance + self.epsilon).sqrt()]
    }
}

/// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`; keeps the statistics.
pub fn forward(norm: Norm, x: &[f32], affine: Affine<'_>, y: &mut [f32], statistics: &mut [f32]) {
    let width = affine.width(norm);
    for_blocks(
        (write(y, width), write(statistics, 2), read(x, width)),
        #[inline(always)]
        |(y, statistics, x)| {
            let rows = y.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact(width));
            for ((y, x), statistics) in rows.zip(statistics.elements.chunks_exact_mut(2)) {
                let [mean, scale] = norm.row_statistics(x);
                statistics.copy_from_slice(&[mean, scale]);
                normalise_row(x, affine, mean, scale, y);
            }
        },
    );
}

/// The statistics alone, the same bits as [`forward`] keeps.
pub fn statistics(norm: Norm, x: &[f32], width: usize, statistics: &mut [f32]) {
    for_blocks(
        (write(statistics, 2), read(x, width)),
        #[inline(always)]
        |(statistics, x)| {
            let rows = x.elements.chunks_exact(width).zip(statistics.elements.chunks_exact_mut(2));
            for (x, statistics) in rows {
                statistics.copy_from_slice(&norm.row_statistics(x));
            }
        },
    );
}

/// `y` once more, from the statistics that [`forward`] kept: the same bits for less memory than keeping it.
pub fn recompute(norm: Norm, x: &[f32], affine: Affine<'_>, statistics: &[f32], y: &mut [f32]) {
    let width = affine.width(norm);
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
    let Affine { weight, bias } = affine;
    if bias.is_empty() {
        for ((y, x), weight) in y.iter_mut().zip(x).zip(weight) {
            *y = (x - mean) * scale * weight;
        }
    } else {
        for (((y, x), weight), bias) in y.iter_mut().zip(x).zip(weight).zip(bias) {
            *y = (x - mean) * scale * weight + bias;
        }
    }
}

/// `dx = scale * (g - mean(g) - n * mean(g * n))` with `g = dy * weight` and `n` the normalised row, and without `mean(g)` for an RMS
/// norm; assigned to `dx` or added to it, as onto a residual's gradient.
pub fn backward_input(
    norm: Norm,
    x: &[f32],
    weight: &[f32],
    statistics: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    mode: WriteMode,
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
                let mean_g = match norm.kind {
                    NormKind::Layer => row::sum_pairs(dy, weight, |dy, weight| dy * weight) / width as f32,
                    NormKind::Rms => 0.0,
                };
                let mean_gn = row::sum_triples(dy, weight, x, |dy, weight, x| dy * weight * (x - mean))
                    * scale
                    / width as f32;
                for (((dx, dy), x), weight) in dx.iter_mut().zip(dy).zip(x).zip(weight) {
                    let n = (x - mean) * scale;
                    let value = scale * (dy * weight - mean_g - n * mean_gn);
                    *dx = if mode == WriteMode::Add { *dx + value } else { value };
                }
            }
        },
    );
}

/// The sum over rows of `dy * n`, assigned to `dweight` or added to it, and so that of `dy` to `dbias`, in row order.
pub fn backward_weight(
    norm: Norm,
    x: &[f32],
    statistics: &[f32],
    dy: &[f32],
    dweight: &mut [f32],
    dbias: &mut [f32],
    mode: WriteMode,
) {
    let width = dweight.len();
    assert_eq!(dbias.len(), norm.num_biases(width), "elements of the bias");
    check_rows(x.len(), width);
    check_rows(statistics.len(), 2);
    assert!(x.len() / width == statistics.len() / 2 && x.len() == dy.len(), "all operands have as many rows");
    columns::store_sums(
        dweight,
        mode,
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
    if !dbias.is_empty() {
        super::bias::backward(dbias, dy, mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

    /// Both kinds, with an epsilon that shows.
    const NORMS: [Norm; 2] = [Norm::GPT2, Norm { kind: NormKind::Rms, epsilon: 1e-2 }];

    /// One row's output and, for the output's gradient `dy`, the gradient of the row, in f64 from the definition.
    fn reference(norm: Norm, x: &[f32], weight: &[f32], bias: &[f32], dy: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let (x, weight, bias, dy) = (wide(x), wide(weight), wide(bias), wide(dy));
        let num = x.len() as f64;
        let of_mean = if norm.kind == NormKind::Layer { 1.0 } else { 0.0 };
        let mean = of_mean * x.iter().sum::<f64>() / num;
        let epsilon = f64::from(norm.epsilon);
        let deviation = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / num + epsilon).sqrt();
        let n: Vec<f64> = x.iter().map(|x| (x - mean) / deviation).collect();
        let y = (0..x.len()).map(|i| n[i] * weight[i] + bias.get(i).unwrap_or(&0.0)).collect();
        // dx_j = sum_i g_i dn_i / dx_j with dn_i / dx_j = (1[i = j] - 1/C - n_i n_j / C) / deviation, without 1/C where there is no mean.
        let slope = |i: usize, j: usize| {
            (f64::from(u8::from(i == j)) - of_mean / num - n[i] * n[j] / num) / deviation
        };
        let dx = (0..x.len()).map(|j| (0..x.len()).map(|i| dy[i] * weight[i] * slope(i, j)).sum()).collect();
        (y, dx)
    }

    #[test]
    fn forward_and_backward_equal_the_definition() {
        let shapes = [(1, 1), (2, 3), (5, 16), (3, 33), (260, 65)];
        for (norm, (num_rows, width)) in NORMS.into_iter().flat_map(|norm| shapes.map(|shape| (norm, shape)))
        {
            let (x, dy) = (random("x", num_rows * width), random("dy", num_rows * width));
            let (weight, bias) = (random("weight", width), random("bias", norm.num_biases(width)));
            let affine = Affine { weight: &weight, bias: &bias };
            let (mut y, mut statistics) = (vec![f32::NAN; x.len()], vec![f32::NAN; 2 * num_rows]);
            forward(norm, &x, affine, &mut y, &mut statistics);
            let mut dx = vec![f32::NAN; x.len()];
            backward_input(norm, &x, &weight, &statistics, &dy, &mut dx, WriteMode::Overwrite);
            for row in 0..num_rows {
                let cut = row * width..(row + 1) * width;
                let (want_y, want_dx) = reference(norm, &x[cut.clone()], &weight, &bias, &dy[cut.clone()]);
                assert_close("y", &y[cut.clone()], &want_y, 2e-6);
                // In a row of one element the gradient is zero but for the rounding of terms of about 300.
                let scale = if width == 1 { 1.0 } else { 0.0 };
                let want_dx: Vec<f64> = want_dx.iter().map(|x| x + scale).collect();
                let got_dx: Vec<f32> = dx[cut].iter().map(|x| x + scale as f32).collect();
                assert_close("dx", &got_dx, &want_dx, 5e-6);
            }
        }
    }

    /// `dweight_j = sum over rows of dy_j n_j` and `dbias_j = sum over rows of dy_j`, in f64 from the definition; added to what is there, or
    /// in its place.
    #[test]
    fn gradients_of_weight_and_bias_equal_the_definition() {
        let shapes = [(1, 2), (2, 3), (5, 16), (3, 33), (260, 65)];
        for (norm, (num_rows, width)) in NORMS.into_iter().flat_map(|norm| shapes.map(|shape| (norm, shape)))
        {
            let (x, dy) = (random("x", num_rows * width), random("dy", num_rows * width));
            let (ones, zeros) = (vec![1.0; width], vec![0.0; norm.num_biases(width)]);
            let mut statistics = vec![f32::NAN; 2 * num_rows];
            super::statistics(norm, &x, width, &mut statistics);
            let (mut want_weight, mut want_bias) = (vec![0.0; width], vec![0.0; width]);
            for (x, dy) in x.chunks(width).zip(dy.chunks(width)) {
                // With a weight of one and no bias the output is the normalised row.
                let (n, _) = reference(norm, x, &ones, &zeros, dy);
                for (((weight, bias), n), dy) in want_weight.iter_mut().zip(&mut want_bias).zip(n).zip(dy) {
                    *weight += f64::from(*dy) * n;
                    *bias += f64::from(*dy);
                }
            }
            want_bias.truncate(norm.num_biases(width));
            for (mode, before) in [(WriteMode::Overwrite, 0.0), (WriteMode::Add, 0.75)] {
                let is_there = if mode == WriteMode::Add { 0.75 } else { f32::NAN };
                let (mut dweight, mut dbias) = (vec![is_there; width], vec![is_there; want_bias.len()]);
                backward_weight(norm, &x, &statistics, &dy, &mut dweight, &mut dbias, mode);
                let with = |want: &[f64]| want.iter().map(|want| want + before).collect::<Vec<f64>>();
                assert_close("dweight", &dweight, &with(&want_weight), 5e-6);
                assert_close("dbias", &dbias, &with(&want_bias), 5e-6);
            }
        }
    }

    #[test]
    fn recomputing_gives_the_same_bits_and_adding_adds() {
        NORMS.into_iter().for_each(recompute_and_add);
    }

    fn recompute_and_add(norm: Norm) {
        let (num_rows, width) = (7, 50);
        let (x, dy) = (random("x", num_rows * width), random("dy", num_rows * width));
        let (weight, bias) = (random("weight", width), random("bias", norm.num_biases(width)));
        let affine = Affine { weight: &weight, bias: &bias };
        let (mut y, mut statistics) = (vec![f32::NAN; x.len()], vec![f32::NAN; 2 * num_rows]);
        forward(norm, &x, affine, &mut y, &mut statistics);
        let mut statistics_again = vec![f32::NAN; 2 * num_rows];
        super::statistics(norm, &x, width, &mut statistics_again);
        assert_same_bits("statistics", &statistics_again, &statistics);
        let mut again = vec![f32::NAN; x.len()];
        recompute(norm, &x, affine, &statistics, &mut again);
        assert_same_bits("recomputed", &again, &y);
        let mut assigned = vec![f32::NAN; x.len()];
        backward_input(norm, &x, &weight, &statistics, &dy, &mut assigned, WriteMode::Overwrite);
        let mut added = y.clone();
        backward_input(norm, &x, &weight, &statistics, &dy, &mut added, WriteMode::Add);
        let want: Vec<f32> = y.iter().zip(&assigned).map(|(y, dx)| y + dx).collect();
        assert_same_bits("added", &added, &want);
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let (num_rows, width) = (1000, 65);
        let (x, dy) = (random("x", num_rows * width), random("dy", num_rows * width));
        let (weight, bias) = (random("weight", width), random("bias", width));
        let norm = Norm::GPT2;
        same_on_all_threads("layer norm", || {
            let (mut y, mut statistics) = (vec![f32::NAN; x.len()], vec![f32::NAN; 2 * num_rows]);
            forward(norm, &x, Affine { weight: &weight, bias: &bias }, &mut y, &mut statistics);
            let mut dx = y.clone();
            backward_input(norm, &x, &weight, &statistics, &dy, &mut dx, WriteMode::Add);
            let (mut dweight, mut dbias) = (vec![0.5; width], vec![0.5; width]);
            backward_weight(norm, &x, &statistics, &dy, &mut dweight, &mut dbias, WriteMode::Add);
            [y, statistics, dx, dweight, dbias].concat()
        });
    }

    #[test]
    fn a_row_has_the_same_bits_wherever_it_lies() {
        let width = 37;
        let (weight, bias, row) = (random("weight", width), random("bias", width), random("row", width));
        let affine = Affine { weight: &weight, bias: &bias };
        let run = |num_before: usize| {
            let x = [random("before", num_before * width), row.clone()].concat();
            let (mut y, mut statistics) = (vec![f32::NAN; x.len()], vec![f32::NAN; 2 * (num_before + 1)]);
            forward(Norm::GPT2, &x, affine, &mut y, &mut statistics);
            y[num_before * width..].to_vec()
        };
        let want = run(0);
        for num_before in 1..20 {
            assert_same_bits("row", &run(num_before), &want);
        }
    }
}
