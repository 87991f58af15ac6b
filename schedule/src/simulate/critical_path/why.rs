//! What an instruction of the critical path waited for.

/// What an instruction of the critical path waited for last, which is what the part before it ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Nothing: the step begins with it.
    Beginning,
    /// The instruction before it on the compute lane.
    ComputeLane,
    /// The computes before it in its row: an instruction of another lane is issued when the row reaches it.
    Row,
    /// A gather, reduction, send or compute without which it may not start: see [`crate::Dependencies`].
    Dependency,
    /// The message that it reads.
    Message,
    /// What the other end of its transfer waited for.
    OtherEnd,
    /// Another message, which occupied its link.
    LinkBusy,
    /// Another rank, which was the last to join a norm or tied addition.
    Synchronization,
    /// The rank's own time for messages, in which it could not start.
    Handling,
    /// Other data ranks, which joined its gather or reduction later: only where data ranks are not alike.
    DataRanks,
}

impl Why {
    /// Whether the part is time before its instruction, in which that could not start, and not the instruction itself.
    pub fn is_before(self) -> bool {
        matches!(self, Self::Handling | Self::DataRanks)
    }
}
