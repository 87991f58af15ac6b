//! How gradients are summed over GPUs.

use std::ops::Range;

use pipezero_config::ReductionOrder;
use pipezero_models::queue::{NUM_TERMS_MAX, NcclCommunicator};
use pipezero_models::{ModelError, Queue, View, ViewMut};
use pipezero_partition::{Category, ReductionTerms};

use crate::memory::{Allocator, TrackedBuffer};

/// How a lane sums.
#[derive(Debug)]
pub(super) enum Reduction {
    /// It does not.
    None,
    /// By the library, in its order.
    Library,
    /// In ascending order of the ranks, as every other backend: the terms are sent to the rank that owns the sum, a stretch of it at a time.
    Ordered {
        /// What the terms need.
        sizes: ReductionTerms,
        /// `[member beside this one]`, a stretch each; none before training is prepared.
        terms: Vec<TrackedBuffer>,
    },
}

impl Reduction {
    /// Between so many members, of ranges of at most so many elements.
    pub(super) fn new(order: ReductionOrder, num_members: usize, largest_range: usize) -> Self {
        match order {
            ReductionOrder::Library => Self::Library,
            ReductionOrder::Ordered => {
                Self::Ordered { sizes: ReductionTerms::of(num_members, largest_range), terms: Vec::new() }
            }
        }
    }

    /// Allocates what it needs.
    pub(super) fn prepare(&mut self, memory: &Allocator) -> Result<(), ModelError> {
        if let Self::Ordered { sizes, terms } = self {
            let term = |_| memory.zeros(sizes.stretch, Category::Communication);
            *terms = (0..sizes.num_terms).map(term).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Reduce-scatter in place: this member's part of `range` becomes the sum.
    pub(super) fn reduce(
        &mut self,
        connection: &NcclCommunicator,
        queue: &dyn Queue,
        buffer: &mut TrackedBuffer,
        range: &Range<usize>,
        parts: &[Range<usize>],
    ) {
        match self {
            Self::None => unreachable!("a lane of gradients has a reduction"),
            Self::Library => connection.reduce_scatter(&buffer.view_mut().range(range.clone())),
            Self::Ordered { sizes, terms } => {
                let (own, part_len) = (connection.rank(), parts[0].len());
                for first in (0..part_len).step_by(sizes.stretch) {
                    let len = sizes.stretch.min(part_len - first);
                    let piece =
                        |member: usize| parts[member].start + first..parts[member].start + first + len;
                    let others = || (0..parts.len()).filter(|&member| member != own);
                    let sends: Vec<_> =
                        others().map(|member| (member, buffer.view().range(piece(member)))).collect();
                    let receives: Vec<_> = others()
                        .zip(terms.iter_mut())
                        .map(|(member, term)| (member, term.view_mut().range(0..len)))
                        .collect();
                    connection.exchange(&sends, &receives);
                    add_up(queue, terms, own, buffer.view_mut().range(piece(own)));
                }
            }
        }
    }
}

/// Adds this member's term and those of the others, of which so many are of members before it: as many at once as a kernel takes.
fn add_up(queue: &dyn Queue, terms: &mut [TrackedBuffer], num_before: usize, mut own: ViewMut<'_>) {
    const OTHERS_MAX: usize = NUM_TERMS_MAX - 1;
    let len = own.len();
    let (mut before, after) = terms.split_at_mut(num_before);
    // The first of too many are added up in the place of the next.
    while before.len() > OTHERS_MAX {
        let (first, rest) = before.split_at_mut(OTHERS_MAX);
        queue.sum_in_order(&views(first, len), rest[0].view_mut().range(0..len), &[]);
        before = rest;
    }
    let (with, behind) = after.split_at(after.len().min(OTHERS_MAX - before.len()));
    queue.sum_in_order(&views(before, len), own.reborrow(), &views(with, len));
    for terms in behind.chunks(OTHERS_MAX) {
        queue.sum_in_order(&[], own.reborrow(), &views(terms, len));
    }
}

fn views(terms: &[TrackedBuffer], len: usize) -> Vec<View<'_>> {
    terms.iter().map(|term| term.view().range(0..len)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use pipezero_models::Host;

    /// Values of which a sum in another order has other bits.
    #[test]
    fn terms_of_any_number_of_ranks_are_added_in_ascending_order() {
        let value = |rank: usize| (rank as f32 + 0.1).sin() * 10_f32.powi(rank as i32 % 7 - 3);
        let memory = Allocator::new(Arc::new(Host), Arc::default());
        let buffer = |rank: usize| {
            let mut buffer = memory.zeros(2, Category::Communication).unwrap();
            Host.upload_floats(&[value(rank), -value(rank)], buffer.view_mut());
            buffer
        };
        for size in [2, 5, 63, 64, 65, 127, 128, 129, 200] {
            let expected = (1..size).fold(value(0), |sum, rank| sum + value(rank));
            for own in [0, 1, size / 2, size - 1] {
                let mut terms: Vec<_> = (0..size).filter(|&rank| rank != own).map(buffer).collect();
                let mut sum = buffer(own);
                add_up(&Host, &mut terms, own, sum.view_mut());
                let mut found = [0.0; 2];
                Host.download_floats(sum.view(), &mut found).unwrap();
                assert_eq!(
                    found.map(f32::to_bits),
                    [expected, -expected].map(f32::to_bits),
                    "{own} of {size}"
                );
            }
        }
    }
}
