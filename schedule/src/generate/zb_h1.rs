//! ZB-H1: 1F1B whose weight gradients fill the cool-down.

use super::size::{SizeError, linear};
use super::split::hold_back;
use crate::order::ComputeOrder;

/// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.3): the order of 1F1B with the
/// backward split, and on stage `s` up to `s` weight gradients held back for the time when there is nothing else to do.
///
/// ```text
/// p = 3, m = 6
/// ```
///
/// * Makespan: `m (T_F + T_I + T_W) + (p - 1) (T_F + T_I - T_W)` for `m >= 2 p` and `T_W <= min(T_F, T_I)`; with a hop of
///   `c <= min(T_F, T_I, T_W) / 2`, `+ 4 (p - 1) c`.
/// * In flight: activations of `min(p - s, m)` micro-batches until their `I`, as in 1F1B, and what `W` needs of `s` more.
///   Here an activation is held until its `W`, so `min(p, m)` on every stage.
///
/// # Errors
/// [`SizeError`] if `num_ranks` or `num_micro_batches` is 0, or both are absurdly large.
pub fn zb_h1(num_ranks: u32, num_micro_batches: u32) -> Result<ComputeOrder, SizeError> {
    let placement = linear(num_ranks, num_micro_batches)?;
    let rows = (0..num_ranks)
        .map(|stage| hold_back(stage, num_micro_batches, num_ranks - 1 - stage, stage, true))
        .collect();
    Ok(ComputeOrder { placement, num_micro_batches, rows })
}
