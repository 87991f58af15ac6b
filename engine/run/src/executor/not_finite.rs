//! Where the numbers of a step have ceased to be finite, looked for only once it is known that they have.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is not finite, in the order of a step: the loss comes first, then gradients from the last unit back to the first. So the least that any
/// rank has found is where it began.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum NotFinite {
    /// The loss of a micro-batch, on the rank that has computed it.
    Loss { micro_batch: usize, rank: usize },
    /// The gradient of a unit, in the part that a rank holds after all data ranks' were added.
    Gradient { units_behind: usize, rank: usize, unit: usize, layers: String },
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loss { micro_batch, rank } => {
                write!(f, "the loss of micro-batch {micro_batch} on rank {rank}")
            }
            Self::Gradient { rank, unit, layers, .. } => {
                write!(f, "the gradient of unit u{unit} ({layers}) on rank {rank}")
            }
        }
    }
}
