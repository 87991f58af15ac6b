//! Why processes that have found each other are not connected.

use serde::{Deserialize, Serialize};

/// Why processes that have found each other are not connected by NCCL; all of them say the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NotJoined {
    /// A rank cannot take part.
    #[error("rank {rank}: {reason}")]
    Rank {
        /// The first such rank.
        rank: usize,
        /// What it says.
        reason: String,
        /// Whether it would say so at the next start too.
        is_lasting: bool,
    },
    /// Two ranks have different versions of NCCL.
    #[error(
        "rank {} has NCCL {}, and rank {} has {}: install one version on all hosts, or name its folder first in LD_LIBRARY_PATH", ranks[0], versions[0],
        ranks[1], versions[1]
    )]
    Versions {
        /// Rank 0 and the first that differs.
        ranks: [usize; 2],
        /// Their versions.
        versions: [String; 2],
    },
    /// Two ranks have one GPU.
    #[error(
        "ranks {} and {} are on the same GPU of {host}, and NCCL takes one rank on each: start as many processes on a host as it has GPUs, and let \
         CUDA_VISIBLE_DEVICES give each process all of them, or one of its own", ranks[0], ranks[1]
    )]
    SameGpu {
        /// The ranks.
        ranks: [usize; 2],
        /// Where.
        host: String,
    },
}
