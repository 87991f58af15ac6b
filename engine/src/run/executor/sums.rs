//! Sums of gradients on one rank.

use std::ops::Range;

use crate::run::memory::TrackedBuffer;

/// Adds a range of `addend` to `sum`, from the first element in `start`, and clears `addend`, to which the next backward adds.
pub(super) fn add_and_clear(
    sum: &mut TrackedBuffer,
    start: usize,
    addend: &mut TrackedBuffer,
    range: Range<usize>,
) {
    addend.write(|addend| {
        sum.write(|sum| {
            sum[start..].iter_mut().zip(&addend[range]).for_each(|(sum, &part)| *sum += part);
        });
        addend.fill(0.0);
    });
}
