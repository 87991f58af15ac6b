//! Softmax and cross-entropy in one, over each row of logits.
//!
//! Legend: N rows, V columns; `logits: [N, V]`, `targets, log_sum_exp: [N]`. A row whose target is
//! [`IGNORED_TARGET`] has no loss and no gradient.

use crate::micro_batch::{IGNORED_TARGET, LossSum};

use super::exp::exp;
use super::parallel::{for_blocks, read, width_of, write};
use super::row;

/// Columns whose exponentials are added in f32 before they join the row's f64 sum: V may be 50,000 and more.
const BLOCK_COLUMNS: usize = 1024;

/// The summed loss; keeps `log_sum_exp`, the logarithm of each row's summed exponentials.
///
/// # Panics
/// If a target is neither below V nor [`IGNORED_TARGET`].
pub fn forward(logits: &[f32], targets: &[u32], log_sum_exp: &mut [f32]) -> LossSum {
    let width = width_of(logits.len(), targets.len());
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

/// One nat for each target that counts: the loss of layers that compute none.
pub fn count(targets: &[u32]) -> LossSum {
    let num_targets = targets.iter().filter(|&&target| target != IGNORED_TARGET).count() as u64;
    LossSum { sum: num_targets as f64, num_targets }
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
    let width = width_of(logits.len(), targets.len());
    for_blocks(
        (write(logits, width), read(log_sum_exp, 1), read(targets, 1)),
        #[inline(always)]
        |(logits, log_sum_exp, targets)| {
            let rows = logits.elements.chunks_exact_mut(width).zip(log_sum_exp.elements);
            for ((row, log_sum_exp), &target) in rows.zip(targets.elements) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, random, same_on_all_threads};

    /// Loss and gradient of one row in f64 from the definition.
    fn reference(row: &[f32], target: usize, seed: f64) -> (f64, Vec<f64>) {
        let exponentials: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        let gradient = |(index, e): (usize, &f64)| seed * (e / sum - f64::from(u8::from(index == target)));
        (sum.ln() - f64::from(row[target]), exponentials.iter().enumerate().map(gradient).collect())
    }

    #[test]
    fn loss_and_gradient_equal_the_definition_and_masked_rows_have_none() {
        for (num_rows, width) in [(1, 1), (3, 2), (5, 37), (4, 2500)] {
            let logits: Vec<f32> = random("logits", num_rows * width).iter().map(|x| 5.0 * x).collect();
            let target = |row: usize| if row % 3 == 2 { IGNORED_TARGET } else { (row * 7 % width) as u32 };
            let targets: Vec<u32> = (0..num_rows).map(target).collect();
            let mut log_sum_exp = vec![f32::NAN; num_rows];
            let loss = forward(&logits, &targets, &mut log_sum_exp);
            let mut gradient = logits.clone();
            backward(&mut gradient, &targets, &log_sum_exp, 0.25);
            let (mut sum, mut num_targets) = (0.0, 0);
            for (row, &target) in targets.iter().enumerate() {
                let cut = row * width..(row + 1) * width;
                if target == IGNORED_TARGET {
                    assert!(gradient[cut].iter().all(|&x| x == 0.0));
                    continue;
                }
                let (row_loss, want) = reference(&logits[cut.clone()], target as usize, 0.25);
                sum += row_loss;
                num_targets += 1;
                // A rounding of log-sum-exp, up to 20 here, is an error of 1e-6 in every probability.
                let got: Vec<f32> = gradient[cut].iter().map(|x| x + 0.25).collect();
                let want: Vec<f64> = want.iter().map(|x| x + 0.25).collect();
                assert_close("gradient", &got, &want, 2e-6);
            }
            assert!((loss.sum - sum).abs() <= 1e-6 * sum.max(1.0), "{} is not {sum}", loss.sum);
            assert_eq!(loss.num_targets, num_targets);
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let mut log_sum_exp = [0.0; 1];
        let loss = forward(&[1e4, 0.0, -1e4], &[1], &mut log_sum_exp);
        assert!((loss.sum - 1e4).abs() < 1e-2);
        assert!(forward(&[f32::NAN, 0.0], &[1], &mut log_sum_exp).sum.is_nan());
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let (num_rows, width) = (150, 333);
        let logits = random("logits", num_rows * width);
        let targets: Vec<u32> = (0..num_rows as u32).map(|n| n * n % width as u32).collect();
        same_on_all_threads("cross-entropy", || {
            let (mut log_sum_exp, mut gradient) = (vec![f32::NAN; num_rows], logits.clone());
            let loss = forward(&logits, &targets, &mut log_sum_exp);
            backward(&mut gradient, &targets, &log_sum_exp, 0.1);
            [log_sum_exp, gradient, vec![loss.sum as f32]].concat()
        });
    }
}
