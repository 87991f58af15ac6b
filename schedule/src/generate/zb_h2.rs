//! ZB-H2: twice the warm-up, so that the longest rank has no bubble at all.

use super::size::{SizeError, linear};
use super::split::hold_back;
use crate::order::ComputeOrder;

/// ZB-H2 (arXiv:2401.10241, section 2.3): stage `s` runs `2 (p - s) - 1` forwards ahead and holds back up to `2 s` weight
/// gradients.
///
/// ```text
/// p = 3, m = 6, all times equal
/// rank 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5 .. ..
/// rank 1  .. F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5 ..
/// rank 2  .. .. F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
/// ```
///
/// * The longest rank has no bubble at equal times and `m >= 2 p - 1`: `m (T_F + T_I + T_W)`. But each
///   rank begins a forward after the one before, so a step whose gradient norm is taken over all ranks takes
///   `(p - 1) T_F` more: no shorter than ZB-H1 ([`crate::closed_form::zb_h2_makespan`]).
/// * In flight: `min(2 (p - s) - 1, m)` micro-batches until their `I`; until their `W`, `min(2 p - 1, m)` on every stage
///   ([`crate::closed_form::zb_h2_in_flight`]).
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn zb_h2(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    linear(num_ranks, num_micro_batches, |stage| {
        hold_back(stage, num_micro_batches, 2 * (num_ranks - stage) - 1, 2 * stage, false)
    })
}
