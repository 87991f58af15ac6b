//! What can go wrong between ranks.

use std::time::Duration;

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
    /// Two members that should do the same thing do not.
    #[error(
        "rank {rank} starts {operation}, but its peers are at {expected}: every member must start the same operations in the same order"
    )]
    Mismatch {
        /// The rank that came later.
        rank: usize,
        /// What it started.
        operation: String,
        /// What the first member started.
        expected: String,
    },
    /// Nobody came within the time-out.
    #[error("waited {waited:?} for rank{} {missing:?} in {operation}", if missing.len() == 1 { "" } else { "s" })]
    Timeout {
        /// How long.
        waited: Duration,
        /// In what.
        operation: String,
        /// Ranks that have not joined.
        missing: Vec<usize>,
    },
    /// Another rank failed, so nobody will come.
    #[error("stopped because another rank failed")]
    Stopped,
}
