//! The flat buffer of a unit: how far it is padded and how much of it one data rank owns.
//!
//! The parameters of a unit lie in one flat buffer, so that one collective gathers them all. The buffer is padded to
//! `d` equal shards, each a whole number of cache lines, so that shards start aligned and no data rank is special.

/// A shard is a multiple of this many elements. In f32 these are 64 bytes, a cache line and the widest vector
/// register; in 2 bytes half a line. It does not depend on the precision, so that gradients in f32 and parameters in
/// bf16 have one layout.
pub const ALIGNMENT_ELEMENTS: u64 = 16;

/// Elements of a unit's flat buffer with its padding: `num_elements` rounded up to a multiple of
/// `16 * data_degree`.
///
/// Saturates at `u64::MAX`, which no machine holds.
pub fn padded_elements(num_elements: u64, data_degree: u64) -> u64 {
    shard_elements(num_elements, data_degree).saturating_mul(data_degree.max(1))
}

/// Elements of the part of a unit's flat buffer that one data rank owns: `padded / data_degree`.
///
/// A `data_degree` of 0 counts as 1. Saturates as [`padded_elements`].
pub fn shard_elements(num_elements: u64, data_degree: u64) -> u64 {
    let share = num_elements.div_ceil(data_degree.max(1));
    share.checked_next_multiple_of(ALIGNMENT_ELEMENTS).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_the_least_multiple_of_sixteen_per_data_rank() {
        for data_degree in 1..=9 {
            for num_elements in 0..500 {
                let padded = padded_elements(num_elements, data_degree);
                let least = (num_elements..)
                    .find(|candidate| candidate % (16 * data_degree) == 0)
                    .expect("multiples never end");
                assert_eq!(padded, least, "{num_elements} elements over {data_degree} data ranks");
                assert_eq!(shard_elements(num_elements, data_degree) * data_degree, padded);
            }
        }
    }

    #[test]
    fn absurd_sizes_saturate() {
        assert_eq!(padded_elements(u64::MAX, 1), u64::MAX);
        assert_eq!(padded_elements(u64::MAX - 1, 7), u64::MAX);
    }
}
