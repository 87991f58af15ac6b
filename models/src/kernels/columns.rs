//! Sums down the columns of a matrix, in row order.
//!
//! A block of neighbouring columns is summed at a time, in accumulators that stay in registers and cache; blocks are
//! shared out to threads, rows never are.

use std::ops::Range;

use rayon::prelude::*;

use super::matmul::WriteMode;
use super::simd;

/// Columns of a block: four cache lines of every row.
const BLOCK_COLUMNS: usize = 64;
/// Terms below which sharing out costs more than it gains.
const MIN_PARALLEL_TERMS: usize = 1 << 15;

/// The sum over the rows of what `add_row(row, columns, sums)` adds to the sums of `columns`, assigned to `out` or added to it.
///
/// The rows of one call are summed first, from zero, and then stored in `out` at once, as a matrix product stores its own.
/// `add_row` must be `#[inline(always)]`.
#[inline(always)]
pub(super) fn store_sums(
    out: &mut [f32],
    mode: WriteMode,
    num_rows: usize,
    add_row: impl Fn(usize, Range<usize>, &mut [f32]) + Sync,
) {
    let run = |(block, out): (usize, &mut [f32])| {
        let first = block * BLOCK_COLUMNS;
        let mut sums = [0.0; BLOCK_COLUMNS];
        let sums = &mut sums[..out.len()];
        simd::dispatch(
            #[inline(always)]
            || {
                for row in 0..num_rows {
                    add_row(row, first..first + out.len(), sums);
                }
            },
        );
        for (out, sum) in out.iter_mut().zip(&*sums) {
            *out = if mode == WriteMode::Add { *out + sum } else { *sum };
        }
    };
    if rayon::current_num_threads() == 1 || num_rows * out.len() < MIN_PARALLEL_TERMS {
        out.chunks_mut(BLOCK_COLUMNS).enumerate().for_each(run);
    } else {
        out.par_chunks_mut(BLOCK_COLUMNS).enumerate().for_each(run);
    }
}
