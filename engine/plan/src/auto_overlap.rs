//! Why gradient buffers that are left to the plan came out as they did.

/// Why `"auto"` became what the plan's run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoOverlap {
    /// There is no `memory` that could be too small.
    NoMemory,
    /// What the fullest rank needs with two buffers.
    Needed { rank_bytes: u64 },
}
