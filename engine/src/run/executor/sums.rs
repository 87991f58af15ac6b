//! Sums of gradients on one rank.

use std::ops::Range;

use pipezero_models::layer::Store;
use pipezero_models::{Buffer, Queue, ViewMut};

/// A range of `term` overwrites `sum` or is added to it, and `term` is not read any more.
pub(super) fn use_up(
    queue: &dyn Queue,
    term: &mut Buffer,
    range: Range<usize>,
    sum: ViewMut<'_>,
    store: Store,
) {
    match store {
        Store::Assign => queue.copy(term.view().range(range), sum),
        Store::Add => queue.add(term.view().range(range), sum),
    }
    queue.discard(term.view_mut());
}
