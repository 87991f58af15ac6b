//! Why layers cannot be balanced so.

use crate::split::SplitError;

/// Why layers cannot be balanced so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BalanceError {
    /// The stages do not fit the model, whatever they cost.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Every layer needs a cost.
    #[error(
        "{num_costs} costs were given for {num_layers} layers; give every layer one cost, embeddings and heads included"
    )]
    WrongNumberOfCosts {
        /// Costs that were given.
        num_costs: usize,
        /// Layers of the model.
        num_layers: usize,
    },
    /// No split fits the memory, or none was found that does.
    #[error(
        "no split into {} stages{} fits {limit_bytes} bytes per rank: in the nearest one, with {} transformer layers, the \
         rank of stage {stage} needs {needs_bytes} bytes; allow that much, or use more stages",
        nearest.len(),
        if *is_proven { "" } else { " that was tried" },
        nearest.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
    )]
    Infeasible {
        /// The largest stage of the fullest rank in the nearest split.
        stage: usize,
        /// What the rank of that stage needs in the nearest split: the limit to allow. With one stage per rank no
        /// smaller limit allows any split.
        needs_bytes: u64,
        /// What every rank has.
        limit_bytes: u64,
        /// Transformer blocks per stage of the split that comes nearest, for [`manual`](crate::manual()). With one
        /// stage per rank it is what [`balanced`](crate::balanced()) finds if `needs_bytes` are allowed.
        nearest: Vec<usize>,
        /// Whether no split fits. `false` only with several stages per rank, where the search may end before it has
        /// seen all.
        is_proven: bool,
    },
}
