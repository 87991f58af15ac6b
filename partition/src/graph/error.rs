//! Why a graph of layers is refused.

use std::fmt;

use crate::role::LayerRole;

/// Why a graph of layers is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphError {
    /// The graph has no layers.
    Empty,
    /// A chain of `n` layers has `n - 1` cuts.
    WrongNumberOfCuts {
        /// Cuts that were given.
        num_cuts: usize,
        /// Layers that were given.
        num_layers: usize,
    },
    /// A layer has several inputs or several outputs.
    Branches {
        /// The layer.
        layer: String,
        /// Edges that lead to it.
        num_inputs: usize,
        /// Edges that lead from it.
        num_outputs: usize,
    },
    /// The layers form several pieces, or a cycle.
    NotOneChain {
        /// Layers that can be reached from the first one; 0 if every layer has an input.
        num_reached: usize,
        /// All layers.
        num_layers: usize,
    },
    /// The graph has no transformer blocks to distribute.
    NoBlocks {
        /// All layers.
        num_layers: usize,
    },
    /// The chain is not embeddings, blocks 0, 1, 2, ..., heads.
    RoleOrder {
        /// The first layer that is out of order.
        layer: String,
        /// Its role.
        role: LayerRole,
        /// The role of the layer before it; `None` for the first layer.
        previous: Option<LayerRole>,
    },
    /// Only an embedding may be the embedding's use of a tied weight, only a head the head's.
    TiedRole {
        /// The layer.
        layer: String,
        /// Its role.
        role: LayerRole,
    },
    /// A tied weight has one use in an embedding and one in a head.
    TiedUses {
        /// Layers marked as the embedding's use.
        num_embeddings: usize,
        /// Layers marked as the head's use.
        num_heads: usize,
    },
    /// The two uses of a tied weight differ in size.
    TiedSizes {
        /// Parameters of the embedding's use.
        embedding_parameters: u64,
        /// Parameters of the head's use.
        head_parameters: u64,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the model has no layer; give it at least one transformer block"),
            Self::WrongNumberOfCuts { num_cuts, num_layers } => write!(
                f,
                "{num_cuts} cuts were given for {num_layers} layers; a chain has one cut between any two \
                 neighbours, {} here",
                num_layers.saturating_sub(1)
            ),
            Self::Branches { layer, num_inputs, num_outputs } => write!(
                f,
                "layer `{layer}` has {num_inputs} inputs and {num_outputs} outputs; a model is a chain, so make \
                 the branch and what joins it one layer"
            ),
            Self::NotOneChain { num_reached, num_layers } => write!(
                f,
                "{num_reached} of {num_layers} layers can be reached from the first one; connect them to one \
                 chain without a cycle"
            ),
            Self::NoBlocks { num_layers } => write!(
                f,
                "none of the {num_layers} layers is a transformer block; stages and units are counted in blocks, \
                 so give the model at least one"
            ),
            Self::RoleOrder { layer, role, previous } => {
                write!(f, "layer `{layer}` ({role}) cannot ")?;
                match previous {
                    Some(previous) => write!(f, "follow {previous}")?,
                    None => f.write_str("come first")?,
                }
                f.write_str("; order the chain as embeddings, blocks 0, 1, 2, ... without a gap, heads")
            }
            Self::TiedRole { layer, role } => write!(
                f,
                "layer `{layer}` ({role}) is marked as a use of a tied weight that is not its own; only an \
                 embedding and a head share a weight"
            ),
            Self::TiedUses { num_embeddings, num_heads } => write!(
                f,
                "a tied weight is used by {num_embeddings} embeddings and {num_heads} heads; mark exactly one of \
                 each, or none"
            ),
            Self::TiedSizes { embedding_parameters, head_parameters } => write!(
                f,
                "the embedding's use of the tied weight has {embedding_parameters} parameters and the head's \
                 {head_parameters}; they are the same weight, so make them equal or untie them"
            ),
        }
    }
}

impl std::error::Error for GraphError {}
