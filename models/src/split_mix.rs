//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): the same numbers on every platform.

/// 2^64 over the golden ratio: the state goes from number to number in steps of it.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator, which begins with a seed as its state.
#[derive(Clone, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next 64 random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        output(self.0)
    }
}

/// The first number after this state: every bit of the state changes every bit of it with a chance of one half.
pub fn mixed(state: u64) -> u64 {
    SplitMix(state).next_bits()
}

/// The generator's output function.
pub(crate) fn output(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::SplitMix;

    /// The first numbers of seed 0, by the reference implementation.
    #[test]
    fn the_first_numbers_are_the_published_ones() {
        let mut numbers = SplitMix(0);
        let found = [(); 3].map(|()| numbers.next_bits());
        assert_eq!(found, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }
}
