//! Sums of gradients on one rank.

use std::ops::Range;

use pipezero_models::{Buffer, Queue, ViewMut};

/// Adds a range of `addend` to `sum`, and clears `addend`, to which the next backward adds.
pub(super) fn add_and_clear(queue: &dyn Queue, addend: &mut Buffer, range: Range<usize>, sum: ViewMut<'_>) {
    queue.add(addend.view().range(range), sum);
    queue.clear(addend.view_mut());
}
