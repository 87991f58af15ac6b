//! Biases: rows that begin with one, and its gradient, the sum over rows.
//!
//! A bias is written before its matrix product is added, which saves a pass over the output.
//!
//! Legend: N rows, C columns; `bias: [C]`, the rest `[N, C]`.

use super::columns;
use super::parallel::{for_blocks, read, write};

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

/// `dbias += ` the sum of the rows of `dy`, in row order.
pub fn backward(dbias: &mut [f32], dy: &[f32]) {
    let width = dbias.len();
    columns::add_sums(
        dbias,
        dy.len() / width,
        #[inline(always)]
        |row, columns, sums| {
            for (sum, dy) in sums.iter_mut().zip(&dy[row * width..][columns]) {
                *sum += dy;
            }
        },
    );
}
