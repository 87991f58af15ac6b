//! What can go wrong between ranks.

use std::time::Duration;

use pipezero_models::{ElementType, ModelError};

/// An error of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// The members' parts of a collective would not be equal.
    #[error(
        "{num_elements} elements cannot be cut into {group_size} equal parts; pad the buffer to a multiple of {group_size}"
    )]
    Indivisible {
        /// Elements of the collective.
        num_elements: usize,
        /// Members.
        group_size: usize,
    },
    /// A rank started a collective of a group that it is not in.
    #[error("rank {rank} is not a member of the group {group:?}")]
    NotAMember {
        /// The rank.
        rank: usize,
        /// The members.
        group: Vec<usize>,
    },
    /// Members started different operations.
    #[error(
        "rank {rank} starts {operation}, but its peers started {expected}: every member must start the same operations in the same order"
    )]
    Mismatch {
        /// The rank that joined later.
        rank: usize,
        /// What it started.
        operation: String,
        /// What the first member started.
        expected: String,
    },
    /// A collective reaches beyond its buffer.
    #[error("elements {start}..{end} of a buffer of {len}: the range must lie inside the buffer")]
    OutOfRange {
        /// First element of the range.
        start: usize,
        /// The element after its last.
        end: usize,
        /// Elements of the buffer.
        len: usize,
    },
    /// A sum of elements that are not f32 would lose digits at every addition.
    #[error("{} cannot be summed between ranks: sums are taken in f32; widen the buffer first", plural(*element_type))]
    NotSummed {
        /// What the buffer holds.
        element_type: ElementType,
    },
    /// A rank that does not exist.
    #[error("rank {rank} is not in a world of {world_size} ranks")]
    UnknownRank {
        /// The rank.
        rank: usize,
        /// The number of all ranks.
        world_size: usize,
    },
    /// A rank would send to itself.
    #[error("rank {rank} cannot send to itself: what stays on a rank needs no transfer")]
    ToItself {
        /// The rank.
        rank: usize,
    },
    /// Not every member joined within the timeout.
    #[error("waited {waited:.1?} for {} in {operation}", named(missing))]
    Timeout {
        /// How long.
        waited: Duration,
        /// The operation.
        operation: String,
        /// Ranks that have not joined.
        missing: Vec<usize>,
    },
    /// The compute queue has not come to a point within the timeout.
    #[error(
        "waited {waited:.1?} for the rank's own compute queue, which waits for an operation between ranks or computes"
    )]
    Unfinished {
        /// How long.
        waited: Duration,
    },
    /// A rank asked for its communicator twice.
    #[error("rank {rank} has its communicator: a world serves one engine; make another for the next")]
    Taken {
        /// The rank.
        rank: usize,
    },
    /// The rank's device computes no more.
    #[error("{reason}")]
    Device {
        /// What the device says.
        reason: String,
    },
    /// An emulated link delivers a message later than a wait may last.
    #[error(
        "{operation} between {} arrives {arrives_in:.1?} after the wait for it began, but no wait is longer than {timeout:.1?}: raise \
         the timeout or the bandwidth of the links",
        named(members)
    )]
    TooSlow {
        /// The operation.
        operation: String,
        /// Whose link it is.
        members: Vec<usize>,
        /// From the start of the wait.
        arrives_in: Duration,
        /// The longest wait.
        timeout: Duration,
    },
    /// A wait ended because another rank failed.
    #[error("stopped while it waited for {} in {operation}", named(missing))]
    Interrupted {
        /// The operation.
        operation: String,
        /// Ranks that had not joined.
        missing: Vec<usize>,
    },
    /// Another rank has failed, so nothing is started any more.
    #[error("stopped because another rank failed")]
    Stopped,
}

impl From<ModelError> for CommError {
    /// A queue's error is its device's.
    fn from(error: ModelError) -> Self {
        Self::Device { reason: error.to_string() }
    }
}

impl CommError {
    /// Whether this rank stopped only because another one failed.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::Stopped)
    }
}

/// Ranks as a list in words: `rank 3`, `ranks 0, 1 and 3`.
fn named(ranks: &[usize]) -> String {
    match ranks {
        [] => "an exchange that all members have joined".to_owned(),
        [rank] => format!("rank {rank}"),
        [ranks @ .., last] => {
            let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
            format!("ranks {} and {last}", ranks.join(", "))
        }
    }
}

/// Elements as error texts name them: f32 where no type is given.
pub(super) fn plural(element_type: ElementType) -> &'static str {
    match element_type {
        ElementType::F32 => "elements",
        ElementType::Bf16 => "bf16 elements",
        ElementType::F16 => "f16 elements",
        ElementType::U32 => "u32 elements",
    }
}
