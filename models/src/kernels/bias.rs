//! Biases: rows that begin with one, and its gradient, the sum over rows.
//!
//! A bias is written before its matrix product is added, which saves a pass over the output.
//!
//! Legend: N rows, C columns; `bias: [C]`, the rest `[N, C]`.

use super::columns;
use super::matmul::WriteMode;
use super::parallel::{check_rows, for_blocks, read, write};

/// Every row of `y` becomes `bias`.
pub fn fill_rows(y: &mut [f32], bias: &[f32]) {
    for_blocks(
        write(y, bias.len()),
        #[inline(always)]
        |y| y.elements.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias)),
    );
}

/// `y = x + bias`, row by row: what a residual branch is added to.
pub fn add_to_rows(y: &mut [f32], x: &[f32], bias: &[f32]) {
    let width = bias.len();
    for_blocks(
        (write(y, width), read(x, width)),
        #[inline(always)]
        |(y, x)| {
            for (y, x) in y.elements.chunks_exact_mut(width).zip(x.elements.chunks_exact(width)) {
                for ((y, x), bias) in y.iter_mut().zip(x).zip(bias) {
                    *y = x + bias;
                }
            }
        },
    );
}

/// The sum of the rows of `dy`, in row order, assigned to `dbias` or added to it.
pub fn backward(dbias: &mut [f32], dy: &[f32], mode: WriteMode) {
    let width = dbias.len();
    check_rows(dy.len(), width);
    columns::store_sums(
        dbias,
        mode,
        dy.len() / width,
        #[inline(always)]
        |row, columns, sums| {
            for (sum, dy) in sums.iter_mut().zip(&dy[row * width..][columns]) {
                *sum += dy;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

    #[test]
    fn rows_begin_with_the_bias_and_may_add_to_a_residual() {
        for (num_rows, width) in [(1, 1), (3, 5), (700, 33)] {
            let (x, bias) = (random("x", num_rows * width), random("bias", width));
            let filled = same_on_all_threads("fill", || {
                let mut y = vec![f32::NAN; num_rows * width];
                fill_rows(&mut y, &bias);
                y
            });
            let added = same_on_all_threads("add", || {
                let mut y = vec![f32::NAN; num_rows * width];
                add_to_rows(&mut y, &x, &bias);
                y
            });
            for (index, &x) in x.iter().enumerate() {
                assert_eq!(filled[index], bias[index % width]);
                assert_eq!(added[index], x + bias[index % width]);
            }
        }
    }

    #[test]
    fn column_sums_are_added_to_what_was_there_or_overwrite_it() {
        for (num_rows, width) in [(1, 1), (3, 5), (70, 63), (70, 64), (70, 65), (1500, 131)] {
            let (dy, before) = (random("dy", num_rows * width), random("before", width));
            let got = same_on_all_threads("column sums", || {
                let mut dbias = before.clone();
                backward(&mut dbias, &dy, WriteMode::Add);
                dbias
            });
            let [mut from_zero, mut assigned] = [0.0, f32::NAN].map(|before| vec![before; width]);
            backward(&mut from_zero, &dy, WriteMode::Add);
            backward(&mut assigned, &dy, WriteMode::Overwrite);
            assert_same_bits("assigned", &assigned, &from_zero);
            let column = |c: usize| dy.iter().skip(c).step_by(width).map(|&x| f64::from(x)).sum::<f64>();
            let want: Vec<f64> = (0..width).map(|c| f64::from(before[c]) + column(c)).collect();
            // Up to 1500 terms added one by one in f32.
            assert_close("column sums", &got, &want, 5e-6);
        }
    }
}
