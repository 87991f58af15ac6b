//! Where terms of a sum arrive that its owner adds by itself, in the ranks' order.

use serde::{Deserialize, Serialize};

use crate::element::F32_BYTES;

/// The most bytes of terms that have arrived and are not yet added: as many as keep a link busy, whatever the number of ranks.
const TERMS_BYTES_MAX: usize = 32 << 20;

/// A buffer for the term of each other member, of a stretch of the sum at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReductionTerms {
    /// Terms that arrive: one of each other member.
    pub num_terms: usize,
    /// f32 elements of each.
    pub stretch: usize,
}

impl ReductionTerms {
    /// Between so many members, of ranges of at most so many elements, of which each member owns an equal part.
    pub fn of(num_members: usize, largest_range: usize) -> Self {
        let num_terms = num_members.saturating_sub(1);
        let most = TERMS_BYTES_MAX / F32_BYTES as usize / num_terms.max(1);
        Self { num_terms, stretch: largest_range.div_ceil(num_members.max(1)).clamp(1, most.max(1)) }
    }

    /// f32 elements of all.
    pub fn num_elements(self) -> u64 {
        (self.num_terms * self.stretch) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_a_part_each_and_bounded_together() {
        for (num_members, largest_range, expected) in [
            (1, 100, 0),
            (2, 100, 50),
            (4, 100, 3 * 25),
            (3, 100, 2 * 34),
            (2, 1 << 40, 8 << 20),
            (9, 1 << 40, 8 << 20),
            (1 << 24, 1 << 40, (1 << 24) - 1),
        ] {
            let terms = ReductionTerms::of(num_members, largest_range);
            assert_eq!(terms.num_elements(), expected, "{num_members} members, {largest_range} elements");
        }
    }
}
