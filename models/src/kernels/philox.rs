//! Philox 4x32-10: random numbers that are a function of a counter and a key (Salmon, Moraes, Dror and Shaw, "Parallel
//! random numbers: as easy as 1, 2, 3", SC 2011).
//!
//! Any number can be asked for alone, in any order, as often as one likes: what masks need that are never stored. Ten
//! rounds are what the paper recommends; the mixture of initial values ([`crate::init`]) would do for statistics too,
//! but chains 64-bit products, which vector units lack.

/// Multipliers of a round.
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What the key grows by from round to round.
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
const NUM_ROUNDS: usize = 10;

/// The four numbers at `counter` under `key`.
pub fn block(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    blocks(key, counter.map(|word| [word])).map(|[word]| word)
}

/// As [`block()`], for `L` counters side by side: word `w` of counter `l` at `[w][l]`.
#[inline(always)]
pub(super) fn blocks<const L: usize>(key: [u32; 2], counters: [[u32; L]; 4]) -> [[u32; L]; 4] {
    let [mut a, mut b, mut c, mut d] = counters;
    let [mut key_a, mut key_b] = key;
    for _ in 0..NUM_ROUNDS {
        for lane in 0..L {
            let first = u64::from(MULTIPLIERS[0]) * u64::from(a[lane]);
            let second = u64::from(MULTIPLIERS[1]) * u64::from(c[lane]);
            a[lane] = (second >> 32) as u32 ^ b[lane] ^ key_a;
            b[lane] = second as u32;
            c[lane] = (first >> 32) as u32 ^ d[lane] ^ key_b;
            d[lane] = first as u32;
        }
        key_a = key_a.wrapping_add(KEY_STEPS[0]);
        key_b = key_b.wrapping_add(KEY_STEPS[1]);
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_are_those_of_the_authors() {
        // Random123's `kat_vectors`, lines "philox4x32 10".
        assert_eq!(block([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(block([u32::MAX; 2], [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            block([0xa409_3822, 0x299f_31d0], [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn lanes_do_not_see_each_other() {
        let counters = [[7, 8, 9], [1, 0, 5], [u32::MAX, 2, 3], [4, 4, 0]];
        let together = blocks([3, 11], counters);
        for lane in 0..3 {
            let alone = block([3, 11], counters.map(|words| words[lane]));
            assert_eq!(together.map(|words| words[lane]), alone);
        }
    }
}
