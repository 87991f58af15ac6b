//! The reason for the number of gradient buffers, if the run left it to the plan.

/// The reason for the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoOverlap {
    /// There is no `memory` that could be too small.
    NoMemory,
    /// The fullest rank needs so many bytes with two buffers.
    Needed { rank_bytes: u64 },
}
