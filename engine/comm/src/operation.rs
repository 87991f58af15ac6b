//! What an operation does and how many bytes it sends, the same on every member.

use std::fmt;
use std::ops::Range;

use pipezero_models::ElementType;
use pipezero_partition::part_bytes;

use super::error::{CommError, plural};
use super::part::part;
use crate::memory::TrackedBuffer;

/// What the members of a round do together; equal on all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Every member gets the parts of all.
    AllGather {
        /// The elements that the parts make up.
        range: Range<usize>,
        /// What they are.
        element_type: ElementType,
    },
    /// Every member gets its part of the sum, which is of f32, as every sum of elements.
    ReduceScatter {
        /// The elements that are summed.
        range: Range<usize>,
    },
    /// Every member gets the sum.
    AllReduce {
        /// The elements that are summed.
        range: Range<usize>,
    },
    /// The first member sends to the second.
    Transfer {
        /// From the beginning of each end's buffer.
        num_elements: usize,
        /// What they are.
        element_type: ElementType,
    },
    /// Every member gets the sum of whole words.
    AddWords {
        /// Words of each member.
        num_words: usize,
    },
}

const F32_BYTES: usize = ElementType::F32.num_bytes();

impl Operation {
    /// The transfer of a buffer's first elements.
    pub(super) fn transfer(buffer: &TrackedBuffer, num_elements: usize) -> Self {
        Self::Transfer { num_elements, element_type: buffer.element_type() }
    }

    /// Whether these members can do this with such buffers.
    ///
    /// # Errors
    /// [`CommError::NotSummed`], [`CommError::Indivisible`], [`CommError::OutOfRange`] and [`CommError::ToItself`].
    pub(super) fn check(&self, members: &[usize], buffer: &TrackedBuffer) -> Result<(), CommError> {
        let range = match (self, buffer.element_type()) {
            (Self::AllGather { range, .. }, _)
            | (Self::ReduceScatter { range } | Self::AllReduce { range }, ElementType::F32) => {
                part(range, members.len(), 0)?;
                range.clone()
            }
            (Self::ReduceScatter { .. } | Self::AllReduce { .. }, element_type) => {
                return Err(CommError::NotSummed { element_type });
            }
            (Self::Transfer { .. }, _) if members[0] == members[1] => {
                return Err(CommError::ToItself { rank: members[0] });
            }
            (Self::Transfer { num_elements, .. }, _) => 0..*num_elements,
            (Self::AddWords { .. }, _) => return Ok(()),
        };
        let (start, end, len) = (range.start, range.end, buffer.len());
        if end > len { Err(CommError::OutOfRange { start, end, len }) } else { Ok(()) }
    }

    /// Whether the member at `position` only sends: it need not wait until its message has arrived.
    pub(super) fn is_sent_by(&self, position: usize) -> bool {
        matches!(self, Self::Transfer { .. }) && position == 0
    }

    /// Why queues wait for each other: the operation for what its member `position` computed before, and what that member computes
    /// next for the operation.
    pub(super) fn waits(&self, position: usize) -> [&'static str; 2] {
        match self {
            Self::AllGather { .. } => ["an all-gather for compute", "compute for an all-gather"],
            Self::ReduceScatter { .. } => ["a reduce-scatter for compute", "compute for a reduce-scatter"],
            Self::AllReduce { .. } => ["an all-reduce for compute", "compute for an all-reduce"],
            Self::Transfer { .. } if self.is_sent_by(position) => {
                ["a send for compute", "compute for a send"]
            }
            Self::Transfer { .. } => ["a receive for compute", "compute for a receive"],
            Self::AddWords { .. } => ["words for compute", "compute for words"],
        }
    }

    /// Bytes that one member of `group_size` sends; in a transfer, the sender.
    pub(super) fn sent_bytes(&self, group_size: usize) -> u64 {
        match self {
            Self::AllGather { range, element_type } => {
                part_bytes(range.len(), group_size, element_type.num_bytes())
            }
            Self::ReduceScatter { range } => part_bytes(range.len(), group_size, F32_BYTES),
            Self::AllReduce { range } => 2 * part_bytes(range.len(), group_size, F32_BYTES),
            Self::Transfer { num_elements, element_type } => (num_elements * element_type.num_bytes()) as u64,
            Self::AddWords { num_words } => 2 * part_bytes(*num_words, group_size, size_of::<u64>()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllGather { range, element_type } => {
                write!(f, "an all-gather of {} {}..{}", plural(*element_type), range.start, range.end)
            }
            Self::ReduceScatter { range } => {
                write!(f, "a reduce-scatter of elements {}..{}", range.start, range.end)
            }
            Self::AllReduce { range } => {
                write!(f, "an all-reduce of elements {}..{}", range.start, range.end)
            }
            Self::Transfer { num_elements, element_type } => {
                write!(f, "a transfer of {num_elements} {}", plural(*element_type))
            }
            Self::AddWords { num_words } => write!(f, "a sum of {num_words} words"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_sends_what_the_direct_exchange_moves() {
        let gathered = |element_type| Operation::AllGather { range: 4..16, element_type };
        let sent = |num_elements, element_type| Operation::Transfer { num_elements, element_type };
        for (operation, group_size, num_bytes) in [
            (gathered(ElementType::F32), 1, 0),
            (gathered(ElementType::F32), 2, 24),
            (gathered(ElementType::F32), 4, 36),
            (gathered(ElementType::Bf16), 4, 18),
            (gathered(ElementType::F16), 3, 16),
            (Operation::ReduceScatter { range: 4..16 }, 4, 36),
            (Operation::AllReduce { range: 4..16 }, 4, 72),
            (Operation::AllReduce { range: 3..3 }, 4, 0),
            (sent(7, ElementType::F32), 2, 28),
            (sent(7, ElementType::Bf16), 2, 14),
            // Words that cannot be cut into equal parts are padded.
            (Operation::AddWords { num_words: 5 }, 4, 2 * 3 * 2 * 8),
            (Operation::AddWords { num_words: 0 }, 4, 0),
        ] {
            assert_eq!(operation.sent_bytes(group_size), num_bytes, "{operation} in a group of {group_size}");
        }
    }
}
