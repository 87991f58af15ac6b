//! Interleaved 1F1B: several stages on each rank, depth first.

use alloc::vec::Vec;
use core::ops::Range;

use super::alternate::alternate;
use super::groups::groups;
use super::size::{SizeError, backward, forward, looped};
use crate::order::ComputeOrder;

/// Interleaved 1F1B (Megatron-LM, arXiv:2104.04473, section 2.2.2) on a looped placement: stage `s` lies on rank
/// `s mod p`. A rank runs a *group* of `group_size` micro-batches through one of its stages, then through its next
/// one, and so on (Llama 3's group size `N`, arXiv:2407.21783, section 3.3.2; Megatron's and the default is `N = p`).
///
/// ```text
/// p = 2, v = 2, m = 4, N = 2, a backward as long as two forwards; 2F0 is the forward of stage 2, micro-batch 0
/// rank 0  0F0 0F1 2F0 2F1 0F2 ..  2B0 2B0 0F3 2B1 2B1 2F2 0B0 0B0 2F3 0B1 0B1 ..  2B2 2B2 ..  2B3 2B3 0B2 0B2 ..
/// rank 1  ..  1F0 1F1 3F0 3B0 3B0 3F1 3B1 3B1 1F2 1B0 1B0 1F3 1B1 1B1 3F2 3B2 3B2 3F3 3B3 3B3 1B2 1B2 1B3 1B3 ..
/// ```
///
/// * Warm-up: rank `r` runs `min(2 (p - 1 - r) + (v - 1) N, m v)` forwards before its first backward.
/// * Makespan: `(m + (p - 1) / v) (T_F + T_B)` for `m >= p` without latency, the bubble of 1F1B divided by `v`, for `v`
///   times the messages ([`crate::closed_form::interleaved_makespan`]). With `p | m`, `N = p` and a hop of
///   `c <= min(T_F, T_B) / v`, `+ 2 (p v - 1) c`.
/// * In flight: `min(2 (p - 1 - r) + (v - 1) N + 1, m v)` micro-batches of a stage on rank `r`, each the `v`-th part of
///   a rank's activations. Longer groups hold more, hide more latency, and leave a gathered unit longer in use.
/// * A remainder shorter than `p` joins the last group; `N` is then the longest group's size, in all of the above.
///
/// # Errors
/// [`SizeError`] if a size is 0 or absurdly large, for `num_virtual = 1` (that is 1F1B), and if a group is shorter
/// than the pipeline.
pub fn interleaved(
    num_ranks: u32,
    num_virtual: u32,
    num_micro_batches: u32,
    group_size: u32,
) -> Result<ComputeOrder, SizeError> {
    let placement = looped(num_ranks, num_virtual, num_micro_batches, "interleaved", "1f1b")?;
    if group_size < num_ranks {
        return Err(SizeError::GroupBelowRanks { group_size, num_ranks });
    }
    let groups = groups(num_micro_batches, group_size, num_ranks);
    let longest_group = groups.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let of_group = |group: Range<u32>| {
        (0..num_virtual).flat_map(move |turn| group.clone().map(move |micro_batch| (turn, micro_batch)))
    };
    let turns: Vec<(u32, u32)> = groups.into_iter().flat_map(of_group).collect();
    let rows = (0..num_ranks).map(|rank| {
        let stage = |turn: u32| turn * num_ranks + rank;
        let forwards = turns.iter().map(|&(turn, micro_batch)| forward(stage(turn), micro_batch));
        // Backwards turn the other way, from a rank's last stage to its first.
        let backwards =
            turns.iter().map(|&(turn, micro_batch)| backward(stage(num_virtual - 1 - turn), micro_batch));
        let warm_up = 2 * (num_ranks - 1 - rank) as usize + (num_virtual - 1) as usize * longest_group;
        alternate(forwards, backwards, warm_up)
    });
    Ok(ComputeOrder { placement, num_micro_batches, rows: rows.collect() })
}
