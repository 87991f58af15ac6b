//! Sums of gradients on one rank. Each clears its addend, to which the next backward adds.

use std::ops::Range;

use crate::run::memory::TrackedBuffer;

/// Adds a rank's shard of what was reduced to its sum.
pub(super) fn add_reduced(sum: &mut TrackedBuffer, reduced: &mut TrackedBuffer, shard: Range<usize>) {
    reduced.write(|reduced| {
        sum.write(|sum| sum.iter_mut().zip(&reduced[shard]).for_each(|(sum, &part)| *sum += part));
        reduced.fill(0.0);
    });
}

/// Adds what a rank owns of the gradient of a tied weight's second use to that of the first.
pub(super) fn add_second_use(first: &mut TrackedBuffer, second: &mut TrackedBuffer, owned: Range<usize>) {
    second.write(|second| {
        first.write(|sum| {
            sum[owned.clone()].iter_mut().zip(&second[owned]).for_each(|(sum, &part)| *sum += part);
        });
        second.fill(0.0);
    });
}
