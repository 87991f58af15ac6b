//! What a layer is to the partitioner: its place in the chain and whether it shares its weight.

use std::fmt;

/// What a layer is to the partitioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Reads tokens; joins the first stage.
    Embedding,
    /// Belongs to transformer block `index`, counted from 0; a block may be several layers.
    Block {
        /// The block.
        index: usize,
    },
    /// Final norm, head or loss; joins the last stage.
    Head,
}

impl fmt::Display for LayerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedding => f.write_str("embedding"),
            Self::Block { index } => write!(f, "block {index}"),
            Self::Head => f.write_str("head"),
        }
    }
}

/// Whether a layer's parameters are shared with another layer. A tied layer is always a separate unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tying {
    /// Its parameters are its own.
    #[default]
    Untied,
    /// The embedding's use of the shared weight.
    Embedding,
    /// The head's use of the shared weight.
    Head,
}

/// What becomes of a unit under ZeRO-3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitSharding {
    /// Parameters, gradients and optimizer state are sharded.
    #[default]
    Sharded,
    /// Parameters stay whole between uses; gradients and optimizer state are sharded.
    Persistent,
    /// As under ZeRO-1: parameters and gradients are whole, gradients are reduced once.
    Whole,
}

impl UnitSharding {
    /// All kinds, each at its number: `ALL[kind as usize]`.
    pub const ALL: [Self; 3] = [Self::Sharded, Self::Persistent, Self::Whole];
}
