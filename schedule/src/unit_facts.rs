//! What a schedule needs to know of a unit: where it is, and when its weights are read.

use crate::id::Stage;

/// Whether a unit's weight is shared between the embedding and the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tying {
    /// The unit's weights are its own.
    #[default]
    Untied,
    /// The unit is the embedding's use of the tied weight.
    Embedding,
    /// The unit is the head's use of the tied weight.
    Head,
}

/// What a schedule needs to know of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitFacts {
    /// The stage that the unit belongs to.
    pub stage: Stage,
    /// Whether the forward reads weights; if not, it needs no gather.
    pub forward_reads_weights: bool,
    /// Whether `B` and `I` read weights (an embedding's do not); `W` never does.
    pub backward_reads_weights: bool,
    /// Whether the unit's weight is used a second time.
    pub tying: Tying,
}
