//! Which sample comes when: a permutation of all samples for every epoch, from a seed.
//!
//! The permutation is a Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from
//! pseudorandom functions", 1988) on the smallest even number of bits that holds every sample, walked until it falls
//! below the number of samples (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002, section 4). So any
//! position is computed on its own, on every rank alike, in constant memory, and without a list of all samples.

use pipezero_models::split_mix::mixed;

/// Rounds of the network; four suffice for a random look, two more cost nothing against reading a sequence.
const NUM_ROUNDS: u64 = 6;

/// A permutation of `0..num_samples` for every epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    num_samples: u64,
    seed: u64,
    half_bits: u32,
}

impl Permutation {
    /// The permutations of `num_samples` samples from this seed; `None` if there is no sample.
    pub fn new(num_samples: u64, seed: u64) -> Option<Self> {
        let last = num_samples.checked_sub(1)?;
        let half_bits = (u64::BITS - last.leading_zeros()).div_ceil(2).max(1);
        Some(Self { num_samples, seed, half_bits })
    }

    /// Number of samples of an epoch, at least one.
    pub fn num_samples(&self) -> u64 {
        self.num_samples
    }

    /// The sample that the whole run reads as number `index`, counted from 0: position `index % num_samples` of epoch
    /// `index / num_samples`.
    pub fn sample(&self, index: u64) -> u64 {
        let epoch = index / self.num_samples;
        let key = mixed(mixed(self.seed) ^ epoch);
        let mut sample = self.encrypt(index % self.num_samples, key);
        // The network permutes a domain less than four times as large; following its cycle from a sample leads back
        // to a sample, so this ends and is a permutation of the samples.
        while sample >= self.num_samples {
            sample = self.encrypt(sample, key);
        }
        sample
    }

    /// One pass through the network: a permutation of the numbers of `2 * half_bits` bits.
    fn encrypt(&self, value: u64, key: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..NUM_ROUNDS {
            let round_key = mixed(key.wrapping_add(round));
            (left, right) = (right, left ^ (mixed(round_key ^ right) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(permutation: &Permutation, epoch: u64) -> Vec<u64> {
        let num_samples = permutation.num_samples();
        (epoch * num_samples..(epoch + 1) * num_samples).map(|index| permutation.sample(index)).collect()
    }

    #[test]
    fn every_epoch_is_a_bijection() {
        for num_samples in (1..=130).chain([255, 256, 257, 1000, 4097]) {
            let permutation = Permutation::new(num_samples, 7).expect("there are samples");
            for number in 0..3 {
                let mut samples = epoch(&permutation, number);
                samples.sort_unstable();
                assert!(samples.into_iter().eq(0..num_samples), "{num_samples} samples, epoch {number}");
            }
        }
    }

    #[test]
    fn epochs_and_seeds_differ() {
        let of_seed = |seed| Permutation::new(100, seed).expect("there are samples");
        let first = epoch(&of_seed(1), 0);
        assert_ne!(first, epoch(&of_seed(1), 1));
        assert_ne!(first, epoch(&of_seed(2), 0));
        assert!(!first.is_sorted());
    }

    /// SplitMix64 of seed 0 begins with these numbers (the reference implementation's); the order of a run's samples
    /// stands on them, on every platform.
    #[test]
    fn the_mixer_is_splitmix64() {
        let golden = 0x9e37_79b9_7f4a_7c15_u64;
        let outputs = [0, golden, golden.wrapping_mul(2)].map(mixed);
        assert_eq!(outputs, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    /// Over many epochs every sample comes at every position about equally often: chi-squared with 63 degrees of freedom
    /// per position lies within six standard deviations (2 * 63)^(1/2) of its mean 63.
    #[test]
    fn positions_are_uniform() {
        let (num_samples, num_epochs) = (64, 2000);
        let permutation = Permutation::new(num_samples, 3).expect("there are samples");
        for position in 0..num_samples {
            let mut counts = [0_u32; 64];
            for epoch in 0..num_epochs {
                counts[permutation.sample(epoch * num_samples + position) as usize] += 1;
            }
            let mean = num_epochs as f64 / num_samples as f64;
            let chi_squared: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
            assert!(
                (chi_squared - 63.0).abs() < 6.0 * 126.0_f64.sqrt(),
                "position {position}: {chi_squared}"
            );
        }
    }

    #[test]
    fn the_largest_numbers_are_samples_too() {
        let permutation = Permutation::new(u64::MAX, 5).expect("there are samples");
        assert!(permutation.sample(u64::MAX) < u64::MAX);
        assert_eq!(Permutation::new(1, 5).expect("one sample").sample(17), 0);
        assert_eq!(Permutation::new(0, 5), None);
    }
}
