//! The shape that the handcrafted zero-bubble schedules share: 1F1B with the weight gradients held back.

use alloc::vec::Vec;

use super::size::{backward_input, backward_weight, forward};
use crate::order::StageAction;

/// A stage's row: `warm_up` forwards, then an input gradient and a forward in turn, and a weight gradient as soon as more
/// than `held` wait; what still waits then comes at the end.
///
/// 1F1B's own order in `F` and `I`: with a forward first in each turn if `forward_first`, last if not.
pub(super) fn hold_back(
    stage: u32,
    num_micro_batches: u32,
    warm_up: u32,
    held: u32,
    forward_first: bool,
) -> Vec<StageAction> {
    let m = num_micro_batches;
    let mut row = Vec::with_capacity(3 * m as usize);
    let warm_up = warm_up.min(m);
    row.extend((0..warm_up).map(|of| forward(stage, of)));
    let (mut next_forward, mut next_weight) = (warm_up, 0);
    for next_input in 0..m {
        if forward_first && next_forward < m {
            row.push(forward(stage, next_forward));
            next_forward += 1;
        }
        row.push(backward_input(stage, next_input));
        if next_input + 1 - next_weight > held {
            row.push(backward_weight(stage, next_weight));
            next_weight += 1;
        }
        if !forward_first && next_forward < m {
            row.push(forward(stage, next_forward));
            next_forward += 1;
        }
    }
    row.extend((next_weight..m).map(|of| backward_weight(stage, of)));
    row
}
