//! Eager 1F1B: 1F1B with twice the warm-up, which hides latency.

use super::alternate::alternating;
use super::size::SizeError;
use crate::order::ComputeOrder;

/// 1F1B in which each stage runs twice as far ahead (the "eager 1F1B" of Zhuang et al., arXiv:2211.05322).
///
/// ```text
/// p = 3, m = 4, a backward as long as two forwards
/// rank 0  F0 F1 F2 F3 .. .. .. B0 B0 .. B1 B1 .. B2 B2 .. B3 B3
/// rank 1  .. F0 F1 F2 .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3 .. ..
/// rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .. .. .. ..
/// ```
///
/// * Warm-up: stage `s` runs `min(2 (p - 1 - s), m)` forwards before its first backward.
/// * Makespan: `(m + p - 1) (T_F + T_B) + 2 (p - 1) c` for a hop of `c <= (T_F + T_B) / 2`: as long as 1F1B without
///   latency, and with it one way up and one way down the pipeline instead of one per turn of the steady phase.
/// * In flight: `min(2 (p - s) - 1, m)` on stage `s`. That is its cost, and why 1F1B is better where messages
///   are fast.
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn eager_1f1b(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    alternating(num_ranks, num_micro_batches, |stage| 2 * (num_ranks - 1 - stage))
}
