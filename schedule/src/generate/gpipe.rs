//! GPipe: all forwards, then all backwards.

use super::alternate::alternating;
use super::size::SizeError;
use crate::order::ComputeOrder;

/// GPipe (Huang et al., arXiv:1811.06965): every forward of the step, then every backward.
///
/// ```text
/// p = 3, m = 4, a backward as long as two forwards
/// rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B0 B1 B1 B2 B2 B3 B3
/// rank 1  .. F0 F1 F2 F3 .. .. .. B0 B0 B1 B1 B2 B2 B3 B3 .. ..
/// rank 2  .. .. F0 F1 F2 F3 B0 B0 B1 B1 B2 B2 B3 B3 .. .. .. ..
/// ```
///
/// * Makespan: `(m + p - 1) (T_F + T_B) + 2 (p - 1) c` for a hop of `c <= min(T_F, T_B)`; bubble rate
///   `(p - 1) / (m + p - 1)` at `c = 0`, the same as 1F1B's.
/// * In flight: `m` on every stage. That is its cost, and what 1F1B avoids.
/// * The paper runs the backwards in descending order; here they ascend, which takes as long, and sums gradients in
///   the order of every other schedule.
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn gpipe(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    alternating(num_ranks, num_micro_batches, |_| num_micro_batches)
}
