//! Activations in flight, at their most.

use crate::id::{PipelineRank, Stage};

/// Micro-batches in flight on a stage of 1F1B: `min(p - s, m)` (arXiv:2104.04473, section 2.2.1).
pub fn one_f_one_b_in_flight(num_ranks: u32, num_micro_batches: u32, stage: Stage) -> u32 {
    num_ranks.saturating_sub(stage.0).min(num_micro_batches)
}

/// Micro-batches in flight on a stage of eager 1F1B: `min(2 (p - s) - 1, m)` (arXiv:2211.05322).
pub fn eager_1f1b_in_flight(num_ranks: u32, num_micro_batches: u32, stage: Stage) -> u32 {
    num_ranks.saturating_sub(stage.0).saturating_mul(2).saturating_sub(1).min(num_micro_batches)
}

/// Micro-batches in flight on every stage of GPipe: `m` (arXiv:1811.06965, section 2.3).
pub fn gpipe_in_flight(num_micro_batches: u32) -> u32 {
    num_micro_batches
}

/// Micro-batches in flight on every stage of a breadth-first step: `m` (arXiv:2211.05953).
///
/// All of a rank's `v` stages hold theirs at once.
pub fn bfs_in_flight(num_micro_batches: u32) -> u32 {
    num_micro_batches
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
) -> u32 {
    let longest_group = longest_group(num_ranks, num_micro_batches, group_size);
    let ranks_below = num_ranks.saturating_sub(1).saturating_sub(rank.0);
    let warm_up = 2 * ranks_below + num_virtual.saturating_sub(1) * longest_group;
    (warm_up + 1).min(num_micro_batches * num_virtual)
}

/// The size of the longest group of interleaved 1F1B: a remainder shorter than the pipeline joins the last group.
pub fn longest_group(num_ranks: u32, num_micro_batches: u32, group_size: u32) -> u32 {
    let remainder = num_micro_batches % group_size.max(1);
    if num_micro_batches <= group_size {
        num_micro_batches
    } else if remainder < num_ranks {
        group_size + remainder
    } else {
        group_size
    }
}
