//! What each of several engines needs of something that they share.

use std::fmt;

use pipezero_plan::Bytes;

/// What an engine needs of something that several share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The engine.
    pub engine: String,
    /// Its ranks that need it.
    pub num_ranks: usize,
    /// How much they need: bytes, or threads.
    pub needed: u64,
}

/// Shares of a memory, each with the engine that needs it.
pub(super) struct InBytes<'a>(pub(super) &'a [Share]);

impl fmt::Display for InBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Share { engine, num_ranks, needed }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{engine}: {}, ranks: {num_ranks}", Bytes(*needed))?;
        }
        Ok(())
    }
}

/// Shares of the threads of a process.
pub(super) struct InThreads<'a>(pub(super) &'a [Share]);

impl fmt::Display for InThreads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Share { engine, num_ranks, needed }) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{engine}: {needed}, ranks: {num_ranks}")?;
        }
        Ok(())
    }
}

/// What all shares come to.
pub(super) fn sum(shares: &[Share]) -> u64 {
    shares.iter().fold(0, |sum, share| sum.saturating_add(share.needed))
}
