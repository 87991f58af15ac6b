//! Why a program cannot be simulated on a cluster.

use core::fmt;

use super::setting::{Cores, Ratio};
use crate::simulate::{CostsError, WrongLength};

/// The most instructions that are played: each takes some hundred bytes.
pub(super) const INSTRUCTIONS_MAX: u128 = 1 << 28;

/// Why a program cannot be simulated on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClusterError {
    /// The costs do not fit the program.
    Costs(CostsError),
    /// A pipeline rank has no data rank.
    NoDataRanks,
    /// A step has more instructions than are played.
    TooManyInstructions {
        /// Instructions of all world ranks.
        num_instructions: u128,
    },
    /// There are far costs for another number of edges.
    FarEdges(WrongLength),
    /// Messages would make computes faster, or stop them.
    Slowdown(Ratio),
    /// A rank has a speed of 0, or one that divides by 0.
    Speed {
        /// The world rank.
        rank: u32,
        /// Its speed.
        speed: Ratio,
    },
    /// There is a speed for a rank that does not exist.
    UnknownRank {
        /// The world rank.
        rank: u32,
        /// Ranks of the cluster.
        world_size: usize,
    },
    /// The longest delay has a denominator of 0.
    JitterShare(Ratio),
    /// A host has no rank or no core.
    EmptyHost(Cores),
    /// One instruction after the other, and all as slow as sharing can make them, the step takes longer than a `u64`
    /// can hold.
    TooLong {
        /// What all instructions take together; the largest `u128` if it does not fit that either.
        total: u128,
    },
}

impl From<CostsError> for ClusterError {
    fn from(error: CostsError) -> Self {
        Self::Costs(error)
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Costs(error) => error.fmt(f),
            Self::NoDataRanks => {
                f.write_str("0 data ranks: every pipeline rank has at least one; give 1 or more")
            }
            Self::TooManyInstructions { num_instructions } => write!(
                f,
                "{num_instructions} instructions of all ranks: at most {INSTRUCTIONS_MAX} are played; give fewer data ranks or \
                 micro-batches"
            ),
            Self::FarEdges(wrong) => wrong.fmt(f),
            Self::Slowdown(of) => {
                write!(
                    f,
                    "a slowdown of {of}: computes take at least as long beside a message; give 1/1 or more"
                )
            }
            Self::Speed { rank, speed } => {
                write!(f, "rank {rank} has a speed of {speed}: it would never end; give a positive quotient")
            }
            Self::UnknownRank { rank, world_size } => write!(
                f,
                "a speed for rank {rank} in a cluster of {world_size} ranks: ranks count from 0, data ranks innermost; name one \
                 below {world_size}"
            ),
            Self::JitterShare(share) => {
                write!(f, "a jitter of {share}: a quotient cannot divide by 0; give 0/1 for none")
            }
            Self::EmptyHost(Cores { ranks_per_host, num_cores, .. }) => write!(
                f,
                "hosts of {ranks_per_host} ranks and {num_cores} cores: a host has at least one of each; give both, or \
                 leave cores out"
            ),
            Self::TooLong { total } => write!(
                f,
                "all instructions together take up to {total}, and times go up to {}: make times shorter, or the step",
                u64::MAX
            ),
        }
    }
}

impl core::error::Error for ClusterError {}
