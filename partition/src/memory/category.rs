//! What a rank's memory is used for.

/// What an allocation is for; the categories of `plan --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Parameters at rest: whole, or this rank's shards.
    Parameters,
    /// Buffers that units are gathered into.
    Gathered,
    /// Gradient accumulators and the buffers of gradients in flight.
    Gradients,
    /// Optimizer state.
    Optimizer,
    /// Saved activations, workspaces, the streams between units, and the tokens of a step.
    Activations,
    /// Receive and send buffers.
    Communication,
    /// The copy out of which a checkpoint is written while training goes on.
    Checkpoint,
}

impl Category {
    /// Every category, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Parameters,
        Self::Gathered,
        Self::Gradients,
        Self::Optimizer,
        Self::Activations,
        Self::Communication,
        Self::Checkpoint,
    ];

    /// The name used in tables and JSON.
    pub fn name(self) -> &'static str {
        super::RankMemory::NAMES[self as usize]
    }
}
