//! What the ranks exchange at the end of a step, as words whose sums do not depend on the order of ranks.

use pipezero_models::layer::LossSum;

use pipezero_models::kernels::square_sum::{NUM_LIMBS, SquareSum};

/// Words of a [`StepRecord`]: the norm's, the loss's and the number of targets.
pub(crate) const RECORD_WORDS: usize = NUM_LIMBS + LOSS_WORDS + 1;

const LOSS_WORDS: usize = 3;

/// Fraction bits of the loss as a fixed-point number; 36 bits are left for its integer part.
const LOSS_FRACTION_BITS: i32 = 60;

/// Added to the number of targets for each loss that is not finite or too large; targets of a step stay far below it.
const BROKEN_LOSS: u64 = 1 << 48;

/// A micro-batch with so many nats has diverged, whatever its size; the sum of 128 of them still fits.
const LARGEST_LOSS: f64 = (1_u64 << 28) as f64;

/// Sums over ranks: squares of all gradients, losses, targets.
///
/// The loss is added as a fixed-point integer of 96 bits, so the mean is the same whatever the grid; each
/// micro-batch's sum is rounded to 2^-60 once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepRecord {
    pub(crate) squares: SquareSum,
    loss: [u64; LOSS_WORDS],
    num_targets: u64,
}

/// Whether a loss is not finite, or beyond [`LARGEST_LOSS`].
pub(super) fn is_broken(loss: LossSum) -> bool {
    loss.sum.is_nan() || loss.sum.abs() >= LARGEST_LOSS
}

impl StepRecord {
    /// Adds the loss of one micro-batch. A loss that is not finite, or beyond [`LARGEST_LOSS`], marks the record as
    /// broken.
    pub(crate) fn add_loss(&mut self, loss: LossSum) {
        if is_broken(loss) {
            self.num_targets += BROKEN_LOSS + loss.num_targets;
            return;
        }
        let fixed = (loss.sum * 2.0_f64.powi(LOSS_FRACTION_BITS)) as i128;
        for (index, word) in self.loss.iter_mut().enumerate() {
            *word += (fixed >> (32 * index)) as u32 as u64;
        }
        self.num_targets += loss.num_targets;
    }

    /// Marks the record as broken, without a loss.
    pub(crate) fn set_broken(&mut self) {
        self.add_loss(LossSum { sum: f64::NAN, num_targets: 0 });
    }

    /// The record as words to be added over ranks.
    pub(crate) fn words(&self) -> [u64; RECORD_WORDS] {
        let mut words = [0; RECORD_WORDS];
        words[..NUM_LIMBS].copy_from_slice(&self.squares.limbs());
        words[NUM_LIMBS..NUM_LIMBS + LOSS_WORDS].copy_from_slice(&self.loss);
        words[NUM_LIMBS + LOSS_WORDS] = self.num_targets;
        words
    }

    /// The record whose words, or sums of words of several ranks, are these.
    pub(crate) fn from_words(words: &[u64; RECORD_WORDS]) -> Self {
        let mut limbs = [0; NUM_LIMBS];
        limbs.copy_from_slice(&words[..NUM_LIMBS]);
        let mut loss = [0; LOSS_WORDS];
        loss.copy_from_slice(&words[NUM_LIMBS..NUM_LIMBS + LOSS_WORDS]);
        Self { squares: SquareSum::from_limbs(limbs), loss, num_targets: words[NUM_LIMBS + LOSS_WORDS] }
    }

    /// Targets that carry loss.
    pub(crate) fn num_targets(&self) -> u64 {
        self.num_targets % BROKEN_LOSS
    }

    /// Whether every gradient and loss was finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.squares.is_finite() && self.num_targets < BROKEN_LOSS
    }

    /// Mean loss per target in nats; `None` where nothing carries loss, or a loss is broken.
    pub(crate) fn mean_loss(&self) -> Option<f64> {
        if self.num_targets == 0 || self.num_targets >= BROKEN_LOSS {
            return None;
        }
        let bits = self
            .loss
            .iter()
            .enumerate()
            .fold(0_u128, |sum, (index, &word)| sum.wrapping_add(u128::from(word) << (32 * index)));
        // The sum is a two's complement number of 96 bits.
        let fixed = ((bits << 32) as i128) >> 32;
        Some(fixed as f64 / 2.0_f64.powi(LOSS_FRACTION_BITS) / self.num_targets as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_does_not_depend_on_order_or_grouping() {
        let losses: Vec<_> =
            (1..40).map(|i| LossSum { sum: (f64::from(i) * 0.731).exp().sqrt(), num_targets: 7 }).collect();
        let mut whole = StepRecord::default();
        losses.iter().for_each(|&loss| whole.add_loss(loss));
        let mut sums = [0_u64; RECORD_WORDS];
        for group in losses.rchunks(3) {
            let mut part = StepRecord::default();
            group.iter().rev().for_each(|&loss| part.add_loss(loss));
            for (sum, word) in sums.iter_mut().zip(part.words()) {
                *sum += word;
            }
        }
        let parts = StepRecord::from_words(&sums);
        let (whole, parts) = (whole.mean_loss().unwrap(), parts.mean_loss().unwrap());
        assert_eq!(whole.to_bits(), parts.to_bits());
        let reference = losses.iter().map(|loss| loss.sum).sum::<f64>() / (7.0 * losses.len() as f64);
        // f64 rounds each of 39 additions; the fixed-point sum rounds each addend to 2^-60.
        assert!((whole - reference).abs() <= 1e-13 * reference);
    }

    #[test]
    fn a_negative_rounding_error_survives() {
        let mut record = StepRecord::default();
        record.add_loss(LossSum { sum: -1e-7, num_targets: 2 });
        assert!((record.mean_loss().unwrap() + 5e-8).abs() < 1e-17);
    }

    #[test]
    fn a_broken_loss_breaks_the_record() {
        for sum in [f64::NAN, f64::INFINITY, -1e30, LARGEST_LOSS] {
            let mut record = StepRecord::default();
            record.add_loss(LossSum { sum, num_targets: 2 });
            record.add_loss(LossSum { sum: 1.0, num_targets: 3 });
            let record = StepRecord::from_words(&record.words());
            assert!(!record.is_finite() && record.mean_loss().is_none(), "{sum}");
            assert_eq!(record.num_targets(), 5);
        }
    }

    #[test]
    fn the_largest_losses_still_add_up() {
        let sum = LARGEST_LOSS * (1.0 - f64::EPSILON);
        let mut record = StepRecord::default();
        (0..127).for_each(|_| record.add_loss(LossSum { sum, num_targets: 1 }));
        assert!(record.is_finite());
        assert_eq!(record.mean_loss(), Some(sum));
    }
}
