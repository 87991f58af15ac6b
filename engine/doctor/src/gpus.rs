//! The GPUs that ranks of a process compute on.

use pipezero_comm::world::{RanksOnDevice, World};
use serde::{Deserialize, Serialize};

/// A GPU that ranks of a process compute on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// Its number on the host, as far as the process can tell.
    pub number: usize,
    /// What people call it.
    pub name: String,
    /// The ranks.
    pub ranks: Vec<usize>,
    /// All the memory that it has.
    pub total_bytes: u64,
    /// What is free of it.
    pub free_bytes: u64,
}

/// The GPUs of this process; one that has failed is left out, which the steps report.
pub(super) fn gpus_of(world: &dyn World) -> Vec<GpuFacts> {
    let facts = |of: RanksOnDevice| {
        let memory = of.on.device.memory().ok().flatten()?;
        let (total_bytes, free_bytes) = (memory.total_bytes, memory.free_bytes);
        Some(GpuFacts { number: of.number, name: of.on.name, ranks: of.ranks, total_bytes, free_bytes })
    };
    world.devices().into_iter().filter_map(facts).collect()
}
