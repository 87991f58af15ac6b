//! The shape that all schedules of the 1F1B family share: warm-up, steady, cool-down.

use alloc::vec::Vec;

use super::size::{SizeError, backward, forward, linear};
use crate::order::{ComputeOrder, StageAction};

/// The order with one stage on each rank in which stage `s` runs `warm_up(s)` forwards before its first backward.
pub(super) fn alternating(
    num_ranks: u32,
    num_micro_batches: u32,
    warm_up: impl Fn(u32) -> u32,
) -> Result<ComputeOrder, SizeError> {
    linear(num_ranks, num_micro_batches, |stage| {
        let forwards = (0..num_micro_batches).map(|micro_batch| forward(stage, micro_batch));
        let backwards = (0..num_micro_batches).map(|micro_batch| backward(stage, micro_batch));
        alternate(forwards, backwards, warm_up(stage) as usize)
    })
}

/// A rank's row: `warm_up` forwards, then one forward and one backward in turn, then the backwards that are left.
///
/// The two lists are equally long, and each stays in its order.
pub(super) fn alternate(
    forwards: impl ExactSizeIterator<Item = StageAction>,
    mut backwards: impl Iterator<Item = StageAction>,
    warm_up: usize,
) -> Vec<StageAction> {
    let mut row = Vec::with_capacity(2 * forwards.len());
    for (position, forward) in forwards.enumerate() {
        row.push(forward);
        if position >= warm_up {
            row.extend(backwards.next());
        }
    }
    row.extend(backwards);
    row
}
