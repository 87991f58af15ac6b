//! Softmax and cross-entropy in one, over each row of logits.
//!
//! Legend: N rows, V columns; `logits: [N, V]`, `targets, log_sum_exp: [N]`. A row whose target is
//! [`IGNORED_TARGET`] has no loss and no gradient.

use crate::layer::{IGNORED_TARGET, LossSum};

use super::exp::exp;
use super::parallel::{PerRow, for_blocks, read, write};
use super::row;

/// Columns whose exponentials are added in f32 before they join the row's f64 sum: V may be 50,000 and more.
const BLOCK_COLUMNS: usize = 1024;

/// The summed loss; keeps `log_sum_exp`, the logarithm of each row's summed exponentials.
///
/// # Panics
/// If a target is neither below V nor [`IGNORED_TARGET`].
pub fn forward(logits: &[f32], targets: &[u32], log_sum_exp: &mut [f32]) -> LossSum {
    let width = logits.len() / targets.len();
    for_blocks(
        (write(log_sum_exp, 1), read(logits, width)),
        #[inline(always)]
        |(log_sum_exp, logits)| {
            for (value, row) in log_sum_exp.elements.iter_mut().zip(logits.elements.chunks_exact(width)) {
                *value = row_log_sum_exp(row);
            }
        },
    );
    let mut loss = LossSum::default();
    for ((row, &target), &log_sum_exp) in logits.chunks_exact(width).zip(targets).zip(&*log_sum_exp) {
        if target != IGNORED_TARGET {
            loss.sum += f64::from(log_sum_exp) - f64::from(row[target as usize]);
            loss.num_targets += 1;
        }
    }
    loss
}

#[inline(always)]
fn row_log_sum_exp(row: &[f32]) -> f32 {
    let max = row::max(row);
    let mut sum = 0.0_f64;
    for block in row.chunks(BLOCK_COLUMNS) {
        sum += f64::from(row::sum(
            block,
            #[inline(always)]
            |x| exp(x - max),
        ));
    }
    (f64::from(max) + sum.ln()) as f32
}

/// Logits become their gradient: `seed * (softmax - one_hot(target))`, zero where the target is ignored.
pub fn backward(logits: &mut [f32], targets: &[u32], log_sum_exp: &[f32], seed: f32) {
    let width = logits.len() / targets.len();
    for_blocks(
        (write(logits, width), read(log_sum_exp, 1), PerRow(targets)),
        #[inline(always)]
        |(logits, log_sum_exp, targets)| {
            let rows = logits.elements.chunks_exact_mut(width).zip(log_sum_exp.elements);
            for ((row, log_sum_exp), &target) in rows.zip(targets.0) {
                if target == IGNORED_TARGET {
                    row.fill(0.0);
                    continue;
                }
                for x in row.iter_mut() {
                    *x = seed * exp(*x - log_sum_exp);
                }
                row[target as usize] -= seed;
            }
        },
    );
}
