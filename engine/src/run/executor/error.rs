//! Why a rank stopped.

use std::path::PathBuf;

use pipezero_models::ModelError;

use super::position::Position;
use crate::run::comm::CommError;
use crate::run::data::DataError;

/// What stopped a rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Cause {
    /// An operation between ranks failed.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// A buffer could not be allocated.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A micro-batch could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// This rank's part of the weights could not be read.
    #[error("{}: {source}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A gradient or the loss is infinite or NaN.
    #[error(
        "the loss or a gradient is not finite; no weight was changed; lower the learning rate or look at the data of this step"
    )]
    NotFinite,
    /// The loss of an evaluation is infinite or NaN.
    #[error(
        "the loss is not finite: the weights hold, or lead to, infinities or NaN; train again at a lower rate"
    )]
    LossNotFinite,
    /// The rank's code panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The rank did not answer after the others had stopped.
    #[error("does not answer")]
    Stalled,
}

/// A rank that stopped, and where.
#[derive(Debug, thiserror::Error)]
#[error("rank {rank} at {position}: {cause}")]
pub struct RankFailure {
    /// The world rank.
    pub rank: usize,
    /// Where it was.
    pub position: Position,
    /// Why it stopped.
    #[source]
    pub cause: Cause,
}
