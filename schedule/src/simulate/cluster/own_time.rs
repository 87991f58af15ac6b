//! How long a rank's own work takes at full speed: its cost divided by the rank's speed, with jitter.

use alloc::collections::BTreeMap;

use super::setting::{Jitter, Ratio};

/// What makes one rank's work longer or shorter than another's.
pub(super) struct OwnTime<'a> {
    pub(super) speeds: &'a BTreeMap<u32, Ratio>,
    pub(super) jitter: Option<Jitter>,
}

impl OwnTime<'_> {
    /// A rank's work, to the nearest tick.
    pub(super) fn of(&self, rank: usize, cost: u64) -> u64 {
        match self.speeds.get(&(rank as u32)) {
            None => cost,
            Some(speed) => divide(u128::from(cost) * u128::from(speed.denominator), speed.numerator),
        }
    }

    /// A rank's compute at a position of its row, with its delay.
    pub(super) fn of_compute(&self, rank: usize, index: usize, cost: u64) -> u64 {
        let time = self.of(rank, cost);
        time + self.jitter.map_or(0, |jitter| delay(jitter, rank, index, time))
    }
}

/// `share * u * time`, rounded down.
fn delay(Jitter { seed, share }: Jitter, rank: usize, index: usize, time: u64) -> u64 {
    // 64 + 32 + 32 bits.
    let parts = u128::from(time) * u128::from(share.numerator) * u128::from(draw(seed, rank, index));
    ((parts >> 32) / u128::from(share.denominator)) as u64
}

/// 32 random bits that depend on nothing else: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) with a place for a
/// counter, once for the rank and once for the row.
fn draw(seed: u64, rank: usize, index: usize) -> u32 {
    let of_rank = split_mix(seed, rank as u64);
    (split_mix(of_rank, index as u64) >> 32) as u32
}

/// The number after `counter` others of the generator that starts from `seed`.
fn split_mix(seed: u64, counter: u64) -> u64 {
    let mut z = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn divide(dividend: u128, divisor: u32) -> u64 {
    let divisor = u128::from(divisor);
    ((dividend + divisor / 2) / divisor) as u64
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The first numbers of the generator from seed 1234567, as its reference implementation prints them.
    #[test]
    fn the_generator_is_split_mix() {
        let numbers = [0, 1, 2, 3, 4].map(|counter| split_mix(1_234_567, counter));
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn delays_are_uniform_up_to_their_share() {
        let jitter = Jitter { seed: 7, share: Ratio::new(3, 10) };
        let time = 1_000_000;
        let delays: Vec<u64> =
            (0..100).flat_map(|rank| (0..100).map(move |index| delay(jitter, rank, index, time))).collect();
        assert!(delays.iter().all(|&delay| delay < 300_000));
        // Of 10^4 uniform draws the mean strays by share * time / sqrt(12 * 10^4), and each tenth holds a thousand,
        // give or take 30; five times that is not seen.
        let mean = delays.iter().sum::<u64>() / 10_000;
        assert!(mean.abs_diff(150_000) < 5 * 866, "{mean}");
        for tenth in 0..10 {
            let held = delays.iter().filter(|&&delay| delay / 30_000 == tenth).count();
            assert!(held.abs_diff(1000) < 150, "{held} in tenth {tenth}");
        }
        let again = Jitter { seed: 8, ..jitter };
        assert_ne!(delay(jitter, 0, 0, time), delay(again, 0, 0, time));
        assert_ne!(delay(jitter, 0, 1, time), delay(jitter, 1, 0, time));
        assert_eq!(delay(Jitter { share: Ratio::new(0, 1), ..jitter }, 3, 4, u64::MAX), 0);
    }

    #[test]
    fn speeds_divide_to_the_nearest_tick() {
        let speeds = BTreeMap::from([(1, Ratio::new(1, 2)), (2, Ratio::new(3, 1)), (4, Ratio::ONE)]);
        let own = OwnTime { speeds: &speeds, jitter: None };
        let times = [0, 1, 2, 3, 4].map(|rank| own.of_compute(rank, 0, 100));
        assert_eq!(times, [100, 200, 33, 100, 100]);
        assert_eq!(own.of(2, 101), 34);
    }
}
