//! Forward only: evaluation.

use super::size::{SizeError, forward, linear};
use crate::order::ComputeOrder;

/// Every forward and nothing else, for evaluation and generation.
///
/// ```text
/// p = 3, m = 4
/// rank 0  F0 F1 F2 F3 .. ..
/// rank 1  .. F0 F1 F2 F3 ..
/// rank 2  .. .. F0 F1 F2 F3
/// ```
///
/// * Makespan: `(m + p - 1) T_F + (p - 1) c`.
/// * In flight: nothing stays for a backward; a stage that sends has two activation slots, so that it computes one
///   micro-batch while it sends the last.
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0.
pub fn forward_only(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    let placement = linear(num_ranks, num_micro_batches)?;
    let rows = (0..num_ranks)
        .map(|stage| (0..num_micro_batches).map(|micro_batch| forward(stage, micro_batch)).collect())
        .collect();
    Ok(ComputeOrder { placement, num_micro_batches, rows })
}
