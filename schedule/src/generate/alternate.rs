//! The shape that all schedules of the 1F1B family share: warm-up, steady, cool-down.

use alloc::vec::Vec;

use crate::order::StageAction;

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
