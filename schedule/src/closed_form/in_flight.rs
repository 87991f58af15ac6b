//! Most activations in flight. Sizes have 32 bits and the arithmetic 64, in which none of these forms can overflow.

use crate::id::{PipelineRank, Stage};

/// Micro-batches in flight on a stage of 1F1B: `min(p - s, m)` (arXiv:2104.04473, section 2.2.1).
pub fn one_f_one_b_in_flight(num_ranks: u32, num_micro_batches: u32, stage: Stage) -> u32 {
    num_ranks.saturating_sub(stage.0).min(num_micro_batches)
}

/// Micro-batches in flight on a stage of eager 1F1B: `min(2 (p - s) - 1, m)` (arXiv:2211.05322).
pub fn eager_1f1b_in_flight(num_ranks: u32, num_micro_batches: u32, stage: Stage) -> u32 {
    let ranks_from_here = u64::from(num_ranks.saturating_sub(stage.0));
    let in_flight = (2 * ranks_from_here).saturating_sub(1);
    // Where it is too large for 32 bits, the micro-batches are fewer.
    u32::try_from(in_flight).map_or(num_micro_batches, |in_flight| in_flight.min(num_micro_batches))
}

/// Micro-batches in flight on every stage of ZB-H1, until their weight gradients: `min(p, m)`.
pub fn zb_h1_in_flight(num_ranks: u32, num_micro_batches: u32) -> u32 {
    num_ranks.min(num_micro_batches)
}

/// Micro-batches in flight on every stage of ZB-H2, until their weight gradients: `min(2 p - 1, m)`.
pub fn zb_h2_in_flight(num_ranks: u32, num_micro_batches: u32) -> u32 {
    eager_1f1b_in_flight(num_ranks, num_micro_batches, Stage(0))
}

/// Activations in flight on a rank of interleaved 1F1B, each of one stage and micro-batch:
/// `min(2 (p - 1 - r) + (v - 1) N + 1, m v)`, `N` the size of the longest group ([`longest_group`]).
///
/// Divided by `v` it is in micro-batches of a whole rank, the unit of 1F1B's. The rank's warm-up, and the forward that
/// comes before the first backward (Megatron-LM, arXiv:2104.04473, section 2.2.2, there for `N = p`).
pub fn interleaved_in_flight(
    num_ranks: u32,
    num_virtual: u32,
    num_micro_batches: u32,
    group_size: u32,
    rank: PipelineRank,
) -> u64 {
    let (v, m) = (u64::from(num_virtual), u64::from(num_micro_batches));
    let longest_group = u64::from(longest_group(num_ranks, num_micro_batches, group_size));
    let ranks_below = u64::from(num_ranks.saturating_sub(1).saturating_sub(rank.0));
    let warm_up = 2 * ranks_below + v.saturating_sub(1) * longest_group;
    (warm_up + 1).min(m * v)
}

/// The size of the longest group of interleaved 1F1B: a remainder shorter than the pipeline joins the last group.
pub fn longest_group(num_ranks: u32, num_micro_batches: u32, group_size: u32) -> u32 {
    let remainder = num_micro_batches % group_size.max(1);
    if num_micro_batches <= group_size {
        num_micro_batches
    } else if remainder < num_ranks {
        // No more than all micro-batches.
        group_size + remainder
    } else {
        group_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest sizes, in arithmetic of 128 bits written from the formulas.
    #[test]
    fn no_size_is_too_large() {
        const SIZES: [u32; 9] = [0, 1, 2, 3, 1 << 16, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX];
        for (p, m) in SIZES.into_iter().flat_map(|p| SIZES.map(|m| (p, m))) {
            for rank in SIZES {
                let (wide_p, wide_m, wide_rank) = (i128::from(p), i128::from(m), i128::from(rank));
                let stages = (wide_p - wide_rank).max(0);
                assert_eq!(i128::from(one_f_one_b_in_flight(p, m, Stage(rank))), stages.min(wide_m));
                let eager = (2 * stages - 1).clamp(0, wide_m);
                assert_eq!(i128::from(eager_1f1b_in_flight(p, m, Stage(rank))), eager, "{p} {m} {rank}");
                for (v, group_size) in SIZES.into_iter().flat_map(|v| SIZES.map(|group| (v, group))) {
                    let (wide_v, group) = (i128::from(v), i128::from(group_size));
                    let remainder = wide_m % group.max(1);
                    let longest = match () {
                        () if wide_m <= group => wide_m,
                        () if remainder < wide_p => group + remainder,
                        () => group,
                    };
                    assert_eq!(i128::from(longest_group(p, m, group_size)), longest);
                    let warm_up = 2 * (wide_p - 1 - wide_rank).max(0) + (wide_v - 1).max(0) * longest;
                    let found = interleaved_in_flight(p, v, m, group_size, PipelineRank(rank));
                    let expected = (warm_up + 1).min(wide_m * wide_v);
                    assert_eq!(i128::from(found), expected, "{p} {v} {m} {group_size} {rank}");
                }
            }
        }
    }
}
