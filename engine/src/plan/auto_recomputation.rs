//! Why recomputation that is left to the plan came out as it did.

/// Why `"auto"` became what the plan's run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoRecomputation {
    /// There is no `memory` that could be too small.
    NoMemory,
    /// The schedule runs weight gradients apart, with which nothing is recomputed.
    SplitBackwards,
    /// A rank would need so much if blocks recomputed nothing.
    Needed { kept_bytes: u64 },
}
