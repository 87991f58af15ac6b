//! ZB-H1: 1F1B whose weight gradients fill the cool-down.

use super::size::{SizeError, linear};
use super::split::hold_back;
use crate::order::ComputeOrder;

/// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.3): the order of 1F1B with the
/// backward split, and on stage `s` up to `s` weight gradients held back for the time when there is nothing else to do.
///
/// ```text
/// p = 3, m = 6, all times equal
/// rank 0  F0 F1 F2 .. .. I0 W0 F3 I1 W1 F4 I2 W2 F5 I3 W3 I4 W4 I5 W5
/// rank 1  .. F0 F1 .. I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 F5 I4 W3 I5 W4 W5
/// rank 2  .. .. F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 F5 I5 W3 W4 W5
/// ```
///
/// * Makespan: `m (T_F + T_I + T_W) + (p - 1) (T_F + T_I - T_W)` for `m >= 2 p` and `T_W <= min(T_F, T_I)`; with a hop of
///   `c <= min(T_F, T_I, T_W) / 2`, `+ 4 (p - 1) c`.
/// * In flight: `min(p - s, m)` micro-batches until their `I`, as in 1F1B; until their `W`, which reads saved activations
///   too, `min(p, m)` on every stage ([`crate::closed_form::zb_h1_in_flight`]).
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn zb_h1(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    linear(num_ranks, num_micro_batches, |stage| {
        hold_back(stage, num_micro_batches, num_ranks - 1 - stage, stage, true)
    })
}
