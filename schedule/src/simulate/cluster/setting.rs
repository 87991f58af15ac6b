//! The description of a cluster: what ranks share, and how they differ.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU32;

use super::sharing::Sharing;
use crate::simulate::MessageCost;

/// A quotient, so that factors are exact: 23/20 is 1.15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Above the line.
    pub numerator: u32,
    /// Below the line; 0 is an error wherever a ratio is used.
    pub denominator: u32,
}

impl Ratio {
    /// 1/1.
    pub const ONE: Self = Self::new(1, 1);

    /// `numerator / denominator`.
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator }
    }
}

/// `23/20`
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

/// Random delays of computes: each takes `1 + share * u` times as long, `u` uniform in `[0, 1)` and drawn from seed,
/// world rank and position in the row alone. So a step is longer by `share / 2` on average before ranks wait for each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter {
    /// Another seed, another step.
    pub seed: u64,
    /// The longest delay, as a share of the compute.
    pub share: Ratio,
}

/// What computes need of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Computes {
    /// A core each.
    OccupyCores,
    /// Nothing: they run on a device, or only stand in for one. Only issuing and completing messages takes a core.
    Elsewhere,
}

/// Hosts whose ranks share cores: while more of them are at work than there are cores, all proceed alike, at
/// `num_cores / at work` of their speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Cluster ranks `n k` to `n k + n - 1` share a host; at least 1.
    pub ranks_per_host: u32,
    /// Cores of a host; at least 1.
    pub num_cores: u32,
    /// What computes need of them.
    pub computes: Computes,
}

/// What ranks share, and how they differ. In [`Cluster::alike`] they share nothing and do not differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Data ranks of a pipeline rank; at least 1.
    pub data_degree: u32,
    /// Cluster ranks `n k` to `n k + n - 1` share a node; `None`: all share one. Messages between ranks of one node are near,
    /// others far.
    pub ranks_per_node: Option<NonZeroU32>,
    /// `[edge]`, by [`Edge::index`]: far messages over it, where the costs say what near ones cost; `None`: as near
    /// ones. Gathers and reductions need no second cost: all of a unit are between the same ranks.
    ///
    /// [`Edge::index`]: crate::Edge::index
    pub far_edges: Option<Vec<MessageCost>>,
    /// Which messages slow each other down.
    pub sharing: Sharing,
    /// How many times as long a rank's computes take while a message of the rank occupies a link; at least 1.
    pub slowdown: Ratio,
    /// By world rank, how fast it is: at 1/2 its computes, and its own time for messages, are twice as long. Those not
    /// named run at 1.
    pub speeds: BTreeMap<u32, Ratio>,
    /// Random delays of computes.
    pub jitter: Option<Jitter>,
    /// Cores that ranks share; `None`: each has its own.
    pub cores: Option<Cores>,
}

impl Cluster {
    /// Ranks that are alike and share nothing: every data rank's timeline is that of [`simulate`].
    ///
    /// [`simulate`]: crate::simulate::simulate
    pub const fn alike(data_degree: u32) -> Self {
        Self {
            data_degree,
            ranks_per_node: None,
            far_edges: None,
            sharing: Sharing::Own,
            slowdown: Ratio::ONE,
            speeds: BTreeMap::new(),
            jitter: None,
            cores: None,
        }
    }
}
