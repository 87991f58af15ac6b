//! Breadth first: several stages on each rank, each run for the whole step before the next.

use super::size::{SizeError, backward, forward, looped};
use crate::order::ComputeOrder;

/// Breadth-first pipeline parallelism (Lamy-Poirier, arXiv:2211.05953) on a looped placement: stage `s` lies
/// on rank `s mod p`. All micro-batches of a stage run before the rank turns to its next one.
///
/// ```text
/// p = 2, v = 2, m = 3, a backward as long as two forwards; 2F0 is the forward of stage 2, micro-batch 0
/// rank 0  0F0 0F1 0F2 2F0 2F1 2F2 ..  ..  ..  2B0 2B0 2B1 2B1 2B2 2B2 0B0 0B0 0B1 0B1 0B2 0B2
/// rank 1  ..  1F0 1F1 1F2 3F0 3F1 3F2 3B0 3B0 3B1 3B1 3B2 3B2 1B0 1B0 1B1 1B1 1B2 1B2 ..  ..
/// ```
///
/// * Makespan: `(m + (p - 1) / v) (T_F + T_B)` for `m >= p` without latency ([`crate::closed_form::bfs_makespan`]). For
///   `m > p` and a hop of `c <= min(T_F, T_B) / v` that is also at most
///   `(m - p) min(T_F, T_B) / (p v)`, `+ 2 (p - 1) c`: messages between the last rank and the first have the
///   time of `m - p` micro-batches. For `m = p` as interleaved, `+ 2 (p v - 1) c`.
/// * In flight: `m` on every stage, as in GPipe. Its benefit: a rank works on one stage for `m`
///   micro-batches, so a unit that stays gathered meanwhile is gathered twice a step, not `2 m` times.
/// * Backwards ascend, where PyTorch's descend: as long, and gradients are summed in the order of every other schedule.
///
/// # Errors
/// [`SizeError`] if a size is 0 or absurdly large, and for `num_virtual = 1` (that is GPipe).
pub fn bfs(num_ranks: u32, num_virtual: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    let placement = looped(num_ranks, num_virtual, num_micro_batches, "bfs", "gpipe")?;
    let rows = (0..num_ranks).map(|rank| {
        let stages = (0..num_virtual).map(|turn| turn * num_ranks + rank);
        let micro_batches = 0..num_micro_batches;
        let forwards =
            stages.clone().flat_map(|stage| micro_batches.clone().map(move |of| forward(stage, of)));
        let backwards =
            stages.rev().flat_map(|stage| micro_batches.clone().map(move |of| backward(stage, of)));
        forwards.chain(backwards).collect()
    });
    Ok(ComputeOrder { placement, num_micro_batches, rows: rows.collect() })
}
