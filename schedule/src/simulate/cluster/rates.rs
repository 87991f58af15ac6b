//! How fast work proceeds, as whole numbers of parts of a tick.
//!
//! A tick has `scale` parts. At a rate of `r` parts a tick, work of `t` ticks takes the ticks until `t * scale` parts
//! are done. The scale is the least common multiple of the denominators of all rates that the cluster knows, if that is
//! below 2^62: then nothing is rounded but ends, up to the next tick. Otherwise it is 2^62 and rates are rounded up,
//! so that work of `t` ticks at the rate `x` ends early by less than `t / (2^62 x^2)` ticks: by less than a tick in
//! 2^46 ticks at 1/256.

use alloc::vec;
use alloc::vec::Vec;

use super::setting::{Cores, Ratio};

const SCALE_MAX: u64 = 1 << 62;

/// A rate as a quotient in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    numerator: u64,
    denominator: u64,
}

impl Rate {
    fn new(numerator: u64, denominator: u64) -> Self {
        let common = greatest_common_divisor(numerator, denominator);
        Self { numerator: numerator / common, denominator: denominator / common }
    }
}

/// All rates of a cluster.
pub(super) struct Rates {
    /// Parts of a tick.
    pub(super) scale: u64,
    /// `[messages at the port - 1]`
    of_message: Vec<u64>,
    /// `[ranks at work on the host - 1]`, alone and beside a message; the last stands for all larger numbers.
    of_rank: Vec<[u64; 2]>,
}

impl Rates {
    pub(super) fn new(max_lanes: usize, slowdown: Ratio, cores: Option<Cores>) -> Self {
        let of_message: Vec<Rate> =
            (1..=max_lanes as u64).map(|num_messages| Rate::new(1, num_messages)).collect();
        let of_rank: Vec<[Rate; 2]> = match cores {
            None => vec![of_ranks(1, 1, slowdown)],
            Some(Cores { ranks_per_host, num_cores, .. }) => (1..=ranks_per_host)
                .map(|at_work| of_ranks(num_cores.min(at_work), at_work, slowdown))
                .collect(),
        };
        let all = of_message.iter().chain(of_rank.iter().flatten());
        let scale = all.fold(1, |scale, rate| common_multiple(scale, rate.denominator));
        let parts = |&rate: &Rate| {
            let parts = u128::from(rate.numerator) * u128::from(scale);
            parts.div_ceil(u128::from(rate.denominator)) as u64
        };
        Self {
            scale,
            of_message: of_message.iter().map(parts).collect(),
            of_rank: of_rank.iter().map(|of| [parts(&of[0]), parts(&of[1])]).collect(),
        }
    }

    /// Of a message, at its most crowded port.
    pub(super) fn of_message(&self, num_messages: usize) -> u64 {
        self.of_message[num_messages - 1]
    }

    /// Of a rank's own work while so many ranks of its host are at work.
    pub(super) fn of_rank(&self, at_work: usize, is_slowed: bool) -> u64 {
        self.of_rank[at_work - 1][usize::from(is_slowed)]
    }

    /// The largest factor by which sharing makes any work longer.
    pub(super) fn longest(&self) -> u64 {
        let rates = self.of_message.iter().chain(self.of_rank.iter().flatten());
        rates.map(|&rate| self.scale.div_ceil(rate)).max().unwrap_or(1)
    }
}

/// `cores / at_work`, alone and divided by the slowdown.
fn of_ranks(num_cores: u32, at_work: u32, slowdown: Ratio) -> [Rate; 2] {
    let (cores, at_work) = (u64::from(num_cores), u64::from(at_work));
    let slowed = Rate::new(cores * u64::from(slowdown.denominator), at_work * u64::from(slowdown.numerator));
    [Rate::new(cores, at_work), slowed]
}

fn common_multiple(scale: u64, denominator: u64) -> u64 {
    let factor = denominator / greatest_common_divisor(scale, denominator);
    // A scale that would be larger is the limit, at which rates are rounded.
    match scale.checked_mul(factor) {
        Some(multiple) if multiple < SCALE_MAX && scale < SCALE_MAX => multiple,
        _ => SCALE_MAX,
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::cluster::Computes;

    #[test]
    fn all_rates_are_exact_up_to_42_messages_at_a_port() {
        for max_lanes in 1..=42 {
            let rates = Rates::new(max_lanes, Ratio::ONE, None);
            for num_messages in 1..=max_lanes {
                assert_eq!(rates.of_message(num_messages) * num_messages as u64, rates.scale);
            }
            assert!(rates.scale < SCALE_MAX);
            assert_eq!(rates.longest(), max_lanes as u64);
        }
        let rounded = Rates::new(43, Ratio::ONE, None);
        assert_eq!(rounded.scale, SCALE_MAX);
        assert_eq!(rounded.of_message(43), SCALE_MAX.div_ceil(43));
        assert_eq!(rounded.of_message(1), SCALE_MAX);
    }

    #[test]
    fn the_scale_is_the_least_in_which_all_rates_are_whole() {
        let cores = |ranks_per_host, num_cores| {
            Some(Cores { ranks_per_host, num_cores, computes: Computes::OccupyCores })
        };
        let rates = |max_lanes, (n, d), cores| Rates::new(max_lanes, Ratio::new(n, d), cores);
        assert_eq!(rates(1, (1, 1), None).scale, 1);
        assert_eq!(rates(4, (1, 1), None).scale, 12);
        // 20/23 of full speed.
        assert_eq!(rates(1, (23, 20), None).scale, 23);
        assert_eq!(rates(1, (23, 20), None).of_rank(1, true), 20);
        // 1, 1, 2/3 and 2/4 of it with two cores for up to four ranks.
        let crowded = rates(1, (1, 1), cores(4, 2));
        assert_eq!(crowded.scale, 6);
        assert_eq!([1, 2, 3, 4].map(|at_work| crowded.of_rank(at_work, false)), [6, 6, 4, 3]);
        assert_eq!(rates(1, (3, 2), cores(4, 2)).of_rank(4, true) * 3, rates(1, (3, 2), cores(4, 2)).scale);
        assert_eq!(crowded.longest(), 2);
    }
}
