//! What may be different about a cluster: slow ranks, uneven computes, ports and cores that ranks share.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use pipezero_schedule::simulate::cluster::{Cluster, Computes, Cores, Jitter, Ratio, Sharing};

use super::simulation_error::SimulationError;

/// How a cluster differs from one whose ranks are alike and share nothing; the default differs in nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// The speed of world ranks that are not as fast as the others, as a multiple of their normal speed.
    pub speeds: BTreeMap<u32, Ratio>,
    /// Computes that take a random share longer.
    pub jitter: Option<Jitter>,
    /// How many times as long computes take while a message of their rank occupies a link.
    pub slowdown: Ratio,
    /// Which messages share a port, and so slow each other down.
    pub sharing: Sharing,
    /// The cores of a host, which its ranks share; `None`: each rank has its own.
    pub cores: Option<HostCores>,
}

/// The cores of each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCores {
    /// Cores of a host.
    pub num_cores: u32,
    /// Ranks of a host; `None`: those of a node.
    pub ranks_per_host: Option<u32>,
}

impl Default for WhatIf {
    fn default() -> Self {
        Self {
            speeds: BTreeMap::new(),
            jitter: None,
            slowdown: Ratio::ONE,
            sharing: Sharing::Own,
            cores: None,
        }
    }
}

impl WhatIf {
    /// The cluster with these differences; `alike` is the one without.
    ///
    /// # Errors
    /// [`SimulationError::OneNode`] if ports to other nodes are shared, and there is only one node.
    pub(super) fn applied_to(
        &self,
        alike: Cluster,
        world_size: usize,
        computes: Computes,
    ) -> Result<Cluster, SimulationError> {
        let all_ranks = u32::try_from(world_size).unwrap_or(u32::MAX);
        let ranks_per_node = alike.ranks_per_node.map_or(all_ranks, NonZeroU32::get);
        if matches!(self.sharing, Sharing::NodePort(_)) && ranks_per_node >= all_ranks {
            return Err(SimulationError::OneNode { world_size });
        }
        let cores = self.cores.map(|HostCores { num_cores, ranks_per_host }| Cores {
            ranks_per_host: ranks_per_host.unwrap_or(ranks_per_node),
            num_cores,
            computes,
        });
        let cores = cores.or(alike.cores);
        let Self { ref speeds, jitter, slowdown, sharing, .. } = *self;
        Ok(Cluster { sharing, slowdown, speeds: speeds.clone(), jitter, cores, ..alike })
    }
}
