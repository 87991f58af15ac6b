//! What messages hold, so that each element says which rank it is from, and what has to arrive.

/// Words of a rank's message: well mixed, and so different from rank to rank and place to place.
pub(super) fn word(rank: usize, index: usize) -> u32 {
    let mut bits = ((rank as u64) << 40 | index as u64).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits ^ (bits >> 31)) as u32
}

/// A rank's part of a sum: of either sign and of many magnitudes, so that another order of additions gives other bits.
pub(super) fn part(rank: usize, index: usize) -> f32 {
    let word = word(rank, index);
    let value = (word >> 8) as f32 / 65_536.0 - 128.0;
    value * [1.0, 1e-3, 1e-6, 1e3][word as usize % 4]
}

/// What the parts of these ranks add up to in ascending order.
pub(super) fn sum(members: &[usize], index: usize) -> f32 {
    let mut parts = members.iter().map(|&rank| part(rank, index));
    let first = parts.next().unwrap_or(0.0);
    parts.fold(first, |sum, part| sum + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_order_gives_other_bits() {
        let differs = |index: &usize| {
            sum(&[0, 1, 2], *index).to_bits()
                != (part(0, *index) + (part(1, *index) + part(2, *index))).to_bits()
        };
        assert!((0..256).filter(differs).count() > 16);
        assert!((0..256).all(|index| word(0, index) != word(1, index)));
    }
}
