//! What the ranks exchange at the end of a step, as words whose sums do not depend on the order of ranks.

use pipezero_models::layer::LossSum;

use pipezero_models::kernels::square_sum::{NUM_LIMBS, SquareSum};
use pipezero_partition::{LOSS_PART_WORDS, NORM_RECORD_WORDS};

const LOSS_WORDS: usize = 3;

/// Words of a [`LossRecord`]: the loss's and the number of targets.
const LOSS_RECORD_WORDS: usize = LOSS_WORDS + 1;

// What the plan says of the record's size.
const _: () = assert!(LOSS_RECORD_WORDS as u64 == LOSS_PART_WORDS);
const _: () = assert!((NUM_LIMBS + LOSS_RECORD_WORDS) as u64 == NORM_RECORD_WORDS);

/// Fraction bits of the loss as a fixed-point number; 36 bits are left for its integer part.
const LOSS_FRACTION_BITS: i32 = 60;

/// Added to the number of targets for each loss that is not finite or too large; targets of a step stay far below it.
const BROKEN_LOSS: u64 = 1 << 48;

/// A micro-batch with so many nats has diverged, whatever its size; the sum of 128 of them still fits.
const LARGEST_LOSS: f64 = (1_u64 << 28) as f64;

/// Sums over ranks: squares of all gradients, losses, targets, and the same of each part that the loss reports beside its value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StepRecord {
    pub(crate) squares: SquareSum,
    loss: LossRecord,
    parts: Vec<LossRecord>,
}

/// The sum of losses, and of what they count.
///
/// The loss is added as a fixed-point integer of 96 bits, so the mean is the same whatever the grid; each
/// micro-batch's sum is rounded to 2^-60 once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LossRecord {
    loss: [u64; LOSS_WORDS],
    num_targets: u64,
}

/// Whether a loss is not finite, or beyond [`LARGEST_LOSS`].
pub(super) fn is_broken(loss: LossSum) -> bool {
    loss.sum.is_nan() || loss.sum.abs() >= LARGEST_LOSS
}

impl LossRecord {
    /// Adds the loss of one micro-batch. A loss that is not finite, or beyond [`LARGEST_LOSS`], marks the record as
    /// broken.
    fn add(&mut self, loss: LossSum) {
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

    fn words(self) -> [u64; LOSS_RECORD_WORDS] {
        let ([low, middle, high], num_targets) = (self.loss, self.num_targets);
        [low, middle, high, num_targets]
    }

    fn from_words([low, middle, high, num_targets]: [u64; LOSS_RECORD_WORDS]) -> Self {
        Self { loss: [low, middle, high], num_targets }
    }

    fn is_broken(&self) -> bool {
        self.num_targets >= BROKEN_LOSS
    }

    /// Targets that carry loss.
    fn num_targets(&self) -> u64 {
        self.num_targets % BROKEN_LOSS
    }

    /// Mean per target; `None` where there is none, or a loss is broken.
    fn mean(&self) -> Option<f64> {
        if self.num_targets == 0 || self.is_broken() {
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

impl StepRecord {
    /// The record of a loss that reports so many parts, without any loss.
    pub(crate) fn of_parts(num_parts: usize) -> Self {
        Self { parts: vec![LossRecord::default(); num_parts], ..Self::default() }
    }

    /// Adds the loss of one micro-batch and its parts. A loss that is not finite, or beyond [`LARGEST_LOSS`], marks the record as
    /// broken; a part that is so has no mean.
    pub(crate) fn add_loss(&mut self, loss: LossSum, parts: impl Iterator<Item = LossSum>) {
        self.loss.add(loss);
        self.parts.iter_mut().zip(parts).for_each(|(record, part)| record.add(part));
    }

    /// Marks the record as broken, without a loss.
    pub(crate) fn set_broken(&mut self) {
        self.loss.add(LossSum { sum: f64::NAN, num_targets: 0 });
    }

    /// The record as words to be added over ranks: the norm's, the loss's, those of each part.
    pub(crate) fn words(&self) -> Vec<u64> {
        let mut words = self.squares.limbs().to_vec();
        words.extend([&self.loss].into_iter().chain(&self.parts).flat_map(|record| record.words()));
        words
    }

    /// The record whose words, or sums of words of several ranks, are these.
    pub(crate) fn from_words(words: &[u64]) -> Self {
        let (limbs, losses) = words.split_at(NUM_LIMBS);
        let limbs = limbs.try_into().expect("so many were split off");
        let mut losses = losses.as_chunks().0.iter().map(|&words| LossRecord::from_words(words));
        let loss = losses.next().expect("a record has a loss");
        Self { squares: SquareSum::from_limbs(limbs), loss, parts: losses.collect() }
    }

    /// Targets that carry loss.
    pub(crate) fn num_targets(&self) -> u64 {
        self.loss.num_targets()
    }

    /// Whether every gradient and loss was finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.squares.is_finite() && !self.loss.is_broken()
    }

    /// Mean loss per target in nats; `None` where nothing carries loss, or a loss is broken.
    pub(crate) fn mean_loss(&self) -> Option<f64> {
        self.loss.mean()
    }

    /// The mean of each part, as that of the loss, and the number of its targets.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        self.parts.iter().map(|part| (part.mean(), part.num_targets()))
    }
}

#[cfg(test)]
mod tests {
    use std::iter::empty;

    use super::*;

    #[test]
    fn the_means_do_not_depend_on_order_or_grouping() {
        let losses: Vec<_> =
            (1..40).map(|i| LossSum { sum: (f64::from(i) * 0.731).exp().sqrt(), num_targets: 7 }).collect();
        let with_part = |record: &mut StepRecord, loss: LossSum| {
            record.add_loss(loss, [LossSum { sum: -0.3 * loss.sum, num_targets: 2 }].into_iter());
        };
        let mut whole = StepRecord::of_parts(1);
        losses.iter().for_each(|&loss| with_part(&mut whole, loss));
        let mut sums = vec![0_u64; whole.words().len()];
        for group in losses.rchunks(3) {
            let mut some = StepRecord::of_parts(1);
            group.iter().rev().for_each(|&loss| with_part(&mut some, loss));
            for (sum, word) in sums.iter_mut().zip(some.words()) {
                *sum += word;
            }
        }
        let summed = StepRecord::from_words(&sums);
        let means = |record: &StepRecord| {
            let [(part, num_targets)] = record.parts().collect::<Vec<_>>()[..] else { panic!("one part") };
            assert_eq!(num_targets, 2 * losses.len() as u64);
            [record.mean_loss(), part].map(|mean| mean.unwrap())
        };
        assert_eq!(means(&whole).map(f64::to_bits), means(&summed).map(f64::to_bits));
        let sum = losses.iter().map(|loss| loss.sum).sum::<f64>();
        let references = [sum / (7.0 * losses.len() as f64), -0.3 * sum / (2.0 * losses.len() as f64)];
        for (mean, reference) in means(&whole).into_iter().zip(references) {
            // f64 rounds each of 39 additions; the fixed-point sum rounds each addend to 2^-60.
            assert!((mean - reference).abs() <= 1e-13 * reference.abs());
        }
    }

    #[test]
    fn a_negative_rounding_error_survives() {
        let mut record = StepRecord::default();
        record.add_loss(LossSum { sum: -1e-7, num_targets: 2 }, empty());
        assert!((record.mean_loss().unwrap() + 5e-8).abs() < 1e-17);
    }

    #[test]
    fn a_broken_loss_breaks_the_record() {
        for sum in [f64::NAN, f64::INFINITY, -1e30, LARGEST_LOSS] {
            let mut record = StepRecord::default();
            record.add_loss(LossSum { sum, num_targets: 2 }, empty());
            record.add_loss(LossSum { sum: 1.0, num_targets: 3 }, empty());
            let record = StepRecord::from_words(&record.words());
            assert!(!record.is_finite() && record.mean_loss().is_none(), "{sum}");
            assert_eq!(record.num_targets(), 5);
        }
    }

    #[test]
    fn a_broken_part_and_one_without_targets_have_no_mean_and_break_nothing_else() {
        let mut record = StepRecord::of_parts(3);
        let loss = LossSum { sum: 3.0, num_targets: 2 };
        let parts = [LossSum { sum: f64::NAN, ..loss }, LossSum::default(), LossSum { sum: 5.0, ..loss }];
        record.add_loss(loss, parts.into_iter());
        let record = StepRecord::from_words(&record.words());
        assert!(record.is_finite());
        assert_eq!(record.mean_loss(), Some(1.5));
        assert_eq!(record.parts().collect::<Vec<_>>(), [(None, 2), (None, 0), (Some(2.5), 2)]);
    }

    #[test]
    fn the_largest_losses_still_add_up() {
        let sum = LARGEST_LOSS * (1.0 - f64::EPSILON);
        let mut record = StepRecord::default();
        (0..127).for_each(|_| record.add_loss(LossSum { sum, num_targets: 1 }, empty()));
        assert!(record.is_finite());
        assert_eq!(record.mean_loss(), Some(sum));
    }
}
