//! Why a graph of layers is refused.

use crate::role::LayerRole;

/// Why a graph of layers is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The graph has no layers.
    #[error("the model has no layer; give it at least one transformer block")]
    Empty,
    /// A chain of `n` layers has `n - 1` cuts.
    #[error(
        "{num_cuts} cuts were given for {num_layers} layers; a chain has one cut between any two neighbours, {} here",
        num_layers.saturating_sub(1)
    )]
    WrongNumberOfCuts {
        /// Cuts that were given.
        num_cuts: usize,
        /// Layers that were given.
        num_layers: usize,
    },
    /// A layer has several inputs or several outputs.
    #[error(
        "layer `{layer}` has {num_inputs} inputs and {num_outputs} outputs; a model is a chain, so make the branch and \
         what joins it one layer"
    )]
    Branches {
        /// The layer.
        layer: String,
        /// Edges that lead to it.
        num_inputs: usize,
        /// Edges that lead from it.
        num_outputs: usize,
    },
    /// The layers form several pieces, or a cycle.
    #[error(
        "{num_reached} of {num_layers} layers can be reached from the first one; connect them to one chain without a \
         cycle"
    )]
    NotOneChain {
        /// Layers that can be reached from the first one; 0 if every layer has an input.
        num_reached: usize,
        /// All layers.
        num_layers: usize,
    },
    /// The graph has no transformer blocks to distribute.
    #[error(
        "none of the {num_layers} layers is a transformer block; stages and units are counted in blocks, so give the \
         model at least one"
    )]
    NoBlocks {
        /// All layers.
        num_layers: usize,
    },
    /// The chain is not embeddings, blocks 0, 1, 2, ..., heads.
    #[error(
        "layer `{layer}` ({role}) cannot {}; order the chain as embeddings, blocks 0, 1, 2, ... without a gap, heads",
        previous.map_or("come first".to_owned(), |previous| format!("follow {previous}"))
    )]
    RoleOrder {
        /// The first layer that is out of order.
        layer: String,
        /// Its role.
        role: LayerRole,
        /// The role of the layer before it; `None` for the first layer.
        previous: Option<LayerRole>,
    },
    /// Only an embedding may be the embedding's use of a tied weight, only a head the head's.
    #[error(
        "layer `{layer}` ({role}) is marked as a use of a tied weight that is not its own; only an embedding and a \
         head share a weight"
    )]
    TiedRole {
        /// The layer.
        layer: String,
        /// Its role.
        role: LayerRole,
    },
    /// A tied weight has one use in an embedding and one in a head, or each of its slices has.
    #[error(
        "a tied weight is used by {num_embeddings} embeddings and {num_heads} heads; mark exactly one of each, or of each slice, or none"
    )]
    TiedUses {
        /// Layers marked as the embedding's use.
        num_embeddings: usize,
        /// Layers marked as the head's use.
        num_heads: usize,
    },
    /// The two uses of a tied weight differ in size.
    #[error(
        "the embedding's use of the tied weight has {embedding_parameters} parameters and the head's \
         {head_parameters}; they are the same weight, so make them equal or untie them"
    )]
    TiedSizes {
        /// Parameters of the embedding's use.
        embedding_parameters: u64,
        /// Parameters of the head's use.
        head_parameters: u64,
    },
}
