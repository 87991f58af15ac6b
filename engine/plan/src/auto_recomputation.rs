//! Why recomputation that is left to the plan came out as it did.

use pipezero_models::HeadLogits;

/// Why `"auto"` became what the plan's run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AutoRecomputation {
    /// There is no `memory` that could be too small.
    NoMemory,
    /// The schedule runs weight gradients apart, with which nothing is recomputed.
    SplitBackwards,
    /// A rank would need so much if blocks recomputed nothing.
    Needed(KeptNeed),
}

/// What a rank would need if blocks recomputed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptNeed {
    /// Bytes of the fullest rank.
    pub rank_bytes: u64,
    /// What becomes of the logits then.
    pub logits: HeadLogits,
}

impl KeptNeed {
    /// What is kept then, as a sentence goes on after "with".
    pub(super) fn kept(self) -> &'static str {
        match self.logits {
            HeadLogits::Keep => "all activations kept",
            HeadLogits::Recompute => "the logits recomputed and all other activations kept",
        }
    }
}
