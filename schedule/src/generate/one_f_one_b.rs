//! 1F1B: after a short warm-up, one forward and one backward in turn.

use super::alternate::alternating;
use super::size::SizeError;
use crate::order::ComputeOrder;

/// 1F1B without pipeline flushes inside a step (PipeDream-Flush, arXiv:2006.09503, section 3.2; Megatron-LM's
/// non-interleaved schedule, arXiv:2104.04473, section 2.2.1).
///
/// ```text
/// p = 3, m = 4, a backward as long as two forwards
/// rank 0  F0 F1 F2 .. .. .. .. B0 B0 F3 B1 B1 .. B2 B2 .. B3 B3
/// rank 1  .. F0 F1 .. .. B0 B0 F2 B1 B1 F3 B2 B2 .. B3 B3 .. ..
/// rank 2  .. .. F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .. .. .. ..
///         `warm-up` ` steady: a forward, a backward ` `cool-down`
/// ```
///
/// * Warm-up: stage `s` runs `min(p - 1 - s, m)` forwards before its first backward.
/// * Makespan: `(m + p - 1) (T_F + T_B)` without latency; with a hop of `c` and `p | m`,
///   `+ c (2 (p - 1) m / p + 2 (p - 2))` for `p >= 2`, since every turn of the steady phase waits for its neighbours.
/// * In flight: `min(p - s, m)` on stage `s` ([`crate::closed_form::one_f_one_b_in_flight`]).
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn one_f_one_b(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    alternating(num_ranks, num_micro_batches, |stage| num_ranks - 1 - stage)
}
