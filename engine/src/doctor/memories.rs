//! What the ranks of a host or of a GPU need of its memory.

use serde::{Deserialize, Serialize};

use super::check::{Check, Part};
use super::hosts::{ProcessFacts, by_host};
use crate::plan::{Bytes, Plan, Purpose};
use crate::run::world::{RanksOnDevice, World};

/// A GPU that ranks of a process compute on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GpuFacts {
    /// Its number among those of the process.
    pub(crate) number: usize,
    /// What people call it.
    pub(crate) name: String,
    /// The ranks.
    pub(crate) ranks: Vec<usize>,
    /// All the memory that it has.
    pub(crate) total_bytes: u64,
    /// What is free of it.
    pub(crate) free_bytes: u64,
}

/// The GPUs of this process; one that has failed is left out, which the steps report.
pub(super) fn gpus_of(world: &dyn World) -> Vec<GpuFacts> {
    let facts = |(number, of): (usize, RanksOnDevice)| {
        let memory = of.on.device.memory().ok().flatten()?;
        let (total_bytes, free_bytes) = (memory.total_bytes, memory.free_bytes);
        Some(GpuFacts { number, name: of.on.name, ranks: of.ranks, total_bytes, free_bytes })
    };
    world.devices().into_iter().enumerate().filter_map(facts).collect()
}

/// What ranks need of the memory that they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RanksMemory {
    name: String,
    needed_bytes: u64,
    available_bytes: Option<u64>,
}

/// What is planned for each host, whichever processes its ranks are in; for ranks on GPUs, for each of these.
pub(super) fn memories(plan: &Plan, processes: &[ProcessFacts]) -> Vec<RanksMemory> {
    let needed = |ranks: &[usize]| plan.needed_bytes(Purpose::Training, ranks.iter().copied());
    let of_host = |(name, on_host): (&str, Vec<&ProcessFacts>)| {
        let on_cores = on_host.iter().filter(|of| of.gpus.is_empty());
        let ranks: Vec<usize> = on_cores.flat_map(|of| of.first_rank..of.first_rank + of.num_ranks).collect();
        let host = (!ranks.is_empty()).then(|| RanksMemory {
            name: name.to_owned(),
            needed_bytes: needed(&ranks),
            available_bytes: on_host.iter().filter_map(|of| of.available_bytes).max(),
        });
        let gpus = on_host.iter().flat_map(|of| &of.gpus).map(|gpu| RanksMemory {
            name: format!("GPU {} of {name} ({})", gpu.number, gpu.name),
            needed_bytes: needed(&gpu.ranks),
            available_bytes: Some(gpu.free_bytes),
        });
        host.into_iter().chain(gpus).collect::<Vec<_>>()
    };
    by_host(processes).into_iter().flat_map(of_host).collect()
}

impl RanksMemory {
    /// Whether there is enough, as far as is known.
    pub(super) fn is_enough(&self) -> bool {
        self.available_bytes.is_none_or(|bytes| self.needed_bytes <= bytes)
    }

    /// The figures in words.
    pub(super) fn figures(&self) -> String {
        let available =
            self.available_bytes.map_or_else(|| "not known".to_owned(), |of| Bytes(of).to_string());
        format!("{} planned for its ranks, {available} available", Bytes(self.needed_bytes))
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn check(&self) -> Check {
        let rule = "what is planned for ranks fits the memory that they share";
        Check::new(Part::Hosts, format!("memory of {}", self.name), self.figures(), rule).fails_unless(
            self.is_enough(),
            "use more hosts or GPUs; or save memory: `pipezero plan` says what else fits, and what it costs",
        )
    }
}
