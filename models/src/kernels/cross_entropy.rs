//! Softmax and cross-entropy in one, over each row of logits, block by block.
//!
//! Legend: N rows, V columns; `logits: [N, V]`, `targets: [N]`, `statistics: [N, 3]`. A row whose target is
//! [`IGNORED_TARGET`] has no loss and no gradient.
//!
//! A row's columns are seen in blocks of [`BLOCK_TOKENS`], and its statistics are the largest logit `m` so far, the sum
//! `s` of all `exp(x - m)` so far, and the target's logit (Milakov and Gimelshein, "Online normalizer calculation for
//! softmax", arXiv:1805.02867, section 3):
//!
//! ```text
//! m' = max(m, max of the block)        s' = s exp(m - m') + sum over the block of exp(x - m')
//! ```
//!
//! A block's own sum is taken against its own maximum in f32; the two sums are brought together in f64 and rounded once. So
//! the bits depend on where blocks begin and on nothing else: not on how many blocks one call is given, nor on what becomes of
//! their logits in between.

use crate::micro_batch::{IGNORED_TARGET, LossSum};

use super::exp::exp;
use super::parallel::{for_blocks, read, width_of, write};
use super::row;

/// Columns of a block; the last one of a vocabulary may have fewer. A few of them fill a matrix product, and an f32 sum of their
/// exponentials is exact to a few units of its last place.
pub const BLOCK_TOKENS: usize = 1024;

/// Statistics of a row: at first the largest logit, the summed exponentials and the target's logit; [`loss`] puts the logarithm
/// of all exponentials' sum in place of the first.
pub const NUM_STATISTICS: usize = 3;

/// Goes on with the statistics of each row: `logits: [N, columns]` are those of the tokens from `first_token` on, where a block
/// begins. With token 0 the statistics begin.
pub fn forward(first_token: u32, logits: &[f32], targets: &[u32], statistics: &mut [f32]) {
    let width = width_of(logits.len(), targets.len());
    for_blocks(
        (write(statistics, NUM_STATISTICS), read(logits, width), read(targets, 1)),
        #[inline(always)]
        |(statistics, logits, targets)| {
            let rows = logits.elements.chunks_exact(width).zip(targets.elements);
            for (kept, (row, &target)) in statistics.elements.as_chunks_mut().0.iter_mut().zip(rows) {
                let mut seen = if first_token == 0 { None } else { Some(*kept) };
                for block in row.chunks(BLOCK_TOKENS) {
                    seen = Some(with_block(seen, block));
                }
                *kept = seen.unwrap_or_default();
                if let Some(&logit) = place_of(target, first_token).and_then(|place| row.get(place)) {
                    kept[2] = logit;
                }
            }
        },
    );
}

/// The statistics of a row with one more block.
#[inline(always)]
fn with_block(seen: Option<[f32; NUM_STATISTICS]>, block: &[f32]) -> [f32; NUM_STATISTICS] {
    let block_max = row::max(block);
    let block_sum = row::sum(
        block,
        #[inline(always)]
        |x| exp(x - block_max),
    );
    let Some([max, sum, target]) = seen else { return [block_max, block_sum, 0.0] };
    let new_max = max.max(block_max);
    let scaled = |sum: f32, max: f32| f64::from(sum) * f64::from(max - new_max).exp();
    [new_max, (scaled(sum, max) + scaled(block_sum, block_max)) as f32, target]
}

/// The column of a target among those of the tokens from `first_token` on, if it is not before them.
#[inline(always)]
fn place_of(target: u32, first_token: u32) -> Option<usize> {
    let place = target.checked_sub(first_token).filter(|_| target != IGNORED_TARGET)?;
    Some(place as usize)
}

/// The summed loss, once all columns have been seen.
pub fn loss(targets: &[u32], statistics: &mut [f32]) -> LossSum {
    let mut loss = LossSum::default();
    assert_eq!(
        statistics.len(),
        NUM_STATISTICS * targets.len(),
        "statistics of as many rows as there are targets"
    );
    let rows = statistics.as_chunks_mut::<NUM_STATISTICS>().0;
    for ([max, sum, logit], &target) in rows.iter_mut().zip(targets) {
        *max = (f64::from(*max) + f64::from(*sum).ln()) as f32;
        if target != IGNORED_TARGET {
            loss.sum += f64::from(*max) - f64::from(*logit);
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

/// Logits of the tokens from `first_token` on become their gradient: `seed * (softmax - one_hot(target))`, zero where the
/// target is ignored. The statistics are as [`loss`] left them.
pub fn backward(first_token: u32, logits: &mut [f32], targets: &[u32], statistics: &[f32], seed: f32) {
    let width = width_of(logits.len(), targets.len());
    for_blocks(
        (write(logits, width), read(statistics, NUM_STATISTICS), read(targets, 1)),
        #[inline(always)]
        |(logits, statistics, targets)| {
            let statistics = statistics.elements.as_chunks::<NUM_STATISTICS>().0;
            let rows = logits.elements.chunks_exact_mut(width).zip(statistics);
            for ((row, [log_sum_exp, ..]), &target) in rows.zip(targets.elements) {
                if target == IGNORED_TARGET {
                    row.fill(0.0);
                    continue;
                }
                for x in row.iter_mut() {
                    *x = seed * exp(*x - log_sum_exp);
                }
                if let Some(probability) = place_of(target, first_token).and_then(|place| row.get_mut(place))
                {
                    *probability -= seed;
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_same_bits, random, same_on_all_threads};

    /// Loss and gradient of one row in f64 from the definition.
    fn reference(row: &[f32], target: usize, seed: f64) -> (f64, Vec<f64>) {
        let max = row.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(f64::from(x)));
        let exponentials: Vec<f64> = row.iter().map(|&x| (f64::from(x) - max).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        let gradient = |(index, e): (usize, &f64)| seed * (e / sum - f64::from(u8::from(index == target)));
        let gradients = exponentials.iter().enumerate().map(gradient).collect();
        (max + sum.ln() - f64::from(row[target]), gradients)
    }

    fn targets(num_rows: usize, width: usize) -> Vec<u32> {
        let target = |row: usize| if row % 3 == 2 { IGNORED_TARGET } else { (row * 701 % width) as u32 };
        (0..num_rows).map(target).collect()
    }

    /// Columns of every row, as a block of their own.
    fn columns(logits: &[f32], width: usize, from: usize, to: usize) -> Vec<f32> {
        logits.chunks_exact(width).flat_map(|row| &row[from..to]).copied().collect()
    }

    #[test]
    fn loss_and_gradient_equal_the_definition_and_masked_rows_have_none() {
        for (num_rows, width) in [(1, 1), (3, 2), (5, 37), (4, 1024), (4, 1025), (4, 5000)] {
            // Each row's largest logit comes in another block.
            let mut logits: Vec<f32> = random("logits", num_rows * width).iter().map(|x| 5.0 * x).collect();
            logits.chunks_exact_mut(width).enumerate().for_each(|(row, x)| x[row * 1300 % width] += 20.0);
            let targets = targets(num_rows, width);
            let mut statistics = vec![f32::NAN; NUM_STATISTICS * num_rows];
            forward(0, &logits, &targets, &mut statistics);
            let loss = loss(&targets, &mut statistics);
            let mut gradient = logits.clone();
            backward(0, &mut gradient, &targets, &statistics, 0.25);
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
                // A rounding of log-sum-exp, up to 40 here, is an error of 2e-6 in every probability.
                let got: Vec<f32> = gradient[cut].iter().map(|x| x + 0.25).collect();
                let want: Vec<f64> = want.iter().map(|x| x + 0.25).collect();
                assert_close("gradient", &got, &want, 4e-6);
            }
            assert!((loss.sum - sum).abs() <= 1e-6 * sum.max(1.0), "{} is not {sum}", loss.sum);
            assert_eq!(loss.num_targets, num_targets);
        }
    }

    /// Every way to hand over four blocks in calls of whole blocks.
    #[test]
    fn no_cut_between_blocks_changes_a_bit() {
        let (num_rows, width) = (5, 3 * BLOCK_TOKENS + 77);
        let logits: Vec<f32> = random("logits", num_rows * width).iter().map(|x| 9.0 * x).collect();
        let targets = targets(num_rows, width);
        let run = |cuts: &[usize]| {
            let mut statistics = vec![f32::NAN; NUM_STATISTICS * num_rows];
            for cut in cuts.windows(2) {
                let block = columns(&logits, width, cut[0], cut[1]);
                forward(cut[0] as u32, &block, &targets, &mut statistics);
            }
            let loss = loss(&targets, &mut statistics).sum;
            let mut gradients = vec![0.0; logits.len()];
            for cut in cuts.windows(2) {
                let mut block = columns(&logits, width, cut[0], cut[1]);
                backward(cut[0] as u32, &mut block, &targets, &statistics, 0.1);
                let rows = gradients.chunks_exact_mut(width).zip(block.chunks_exact(cut[1] - cut[0]));
                rows.for_each(|(all, own)| all[cut[0]..cut[1]].copy_from_slice(own));
            }
            [statistics, gradients, vec![loss as f32]].concat()
        };
        let want = run(&[0, width]);
        for chosen in 0..8_usize {
            let inner =
                (1..4).filter(|block| chosen >> (block - 1) & 1 == 1).map(|block| block * BLOCK_TOKENS);
            let cuts: Vec<usize> = [0].into_iter().chain(inner).chain([width]).collect();
            assert_same_bits(&format!("{cuts:?}"), &run(&cuts), &want);
        }
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let loss_of = |logits: &[f32]| {
            let mut statistics = [f32::NAN; NUM_STATISTICS];
            forward(0, logits, &[1], &mut statistics);
            loss(&[1], &mut statistics).sum
        };
        assert!((loss_of(&[1e4, 0.0, -1e4]) - 1e4).abs() < 1e-2);
        assert!(loss_of(&[f32::NAN, 0.0]).is_nan());
        for nan in [0, 1023, 1024, 2500] {
            let mut logits = vec![0.0; 2600];
            logits[nan] = f32::NAN;
            assert!(loss_of(&logits).is_nan(), "NaN in column {nan}");
        }
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        let (num_rows, width) = (150, 333);
        let logits = random("logits", num_rows * width);
        let targets: Vec<u32> = (0..num_rows as u32).map(|n| n * n % width as u32).collect();
        same_on_all_threads("cross-entropy", || {
            let (mut statistics, mut gradient) = (vec![f32::NAN; 3 * num_rows], logits.clone());
            forward(0, &logits, &targets, &mut statistics);
            let loss = loss(&targets, &mut statistics);
            backward(0, &mut gradient, &targets, &statistics, 0.1);
            [statistics, gradient, vec![loss.sum as f32]].concat()
        });
    }
}
