//! How gradients are summed over GPUs.

use std::ops::Range;

use pipezero_models::queue::NcclCommunicator;
use pipezero_models::{Buffer, ElementType, ModelError, Queue};

use crate::config::ReductionOrder;
use crate::run::memory::TrackedBuffer;

/// The most memory for terms that have arrived and are not yet added.
const TERMS_BYTES_MAX: usize = 32 << 20;

/// How a lane sums.
#[derive(Debug)]
pub(super) enum Reduction {
    /// It does not.
    None,
    /// By the library, in its order.
    Library,
    /// In ascending order of the ranks, as every other backend: the terms are sent to the rank that owns the sum, a stretch of it at a time.
    Ordered {
        /// `[member beside this one]`, a stretch each.
        terms: Vec<Buffer>,
        /// Elements of a stretch.
        stretch: usize,
    },
}

impl Reduction {
    /// Between so many members, of ranges of at most so many elements.
    pub(super) fn new(
        order: ReductionOrder,
        queue: &dyn Queue,
        num_members: usize,
        largest_range: usize,
    ) -> Result<Self, ModelError> {
        if order == ReductionOrder::Library {
            return Ok(Self::Library);
        }
        let num_terms = num_members - 1;
        let most = TERMS_BYTES_MAX / ElementType::F32.num_bytes() / num_terms.max(1);
        let stretch = largest_range.div_ceil(num_members).clamp(1, most);
        let terms =
            (0..num_terms).map(|_| queue.zeros(stretch, ElementType::F32)).collect::<Result<_, _>>()?;
        Ok(Self::Ordered { terms, stretch })
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
            Self::Ordered { terms, stretch } => {
                let (own, part_len) = (connection.rank(), parts[0].len());
                for first in (0..part_len).step_by(*stretch) {
                    let len = (*stretch).min(part_len - first);
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
                    let terms: Vec<_> = terms.iter().map(|term| term.view().range(0..len)).collect();
                    let (before, after) = terms.split_at(own);
                    queue.sum_in_order(before, buffer.view_mut().range(piece(own)), after);
                }
            }
        }
    }
}
