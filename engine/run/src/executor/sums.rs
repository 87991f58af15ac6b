//! Sums of gradients on one rank.

use std::ops::Range;

use pipezero_models::layer::WriteMode;
use pipezero_models::{Buffer, Queue, ViewMut};

/// A range of `term` overwrites `sum` or is added to it, and `term` is not read any more.
pub(super) fn use_up(
    queue: &dyn Queue,
    term: &mut Buffer,
    range: Range<usize>,
    sum: ViewMut<'_>,
    store: WriteMode,
) {
    match store {
        WriteMode::Overwrite => queue.copy(term.view().range(range), sum),
        WriteMode::Add => queue.add(term.view().range(range), sum),
    }
    queue.discard(term.view_mut());
}
