//! Whether this host has what the ranks of this process need, before any of them allocates.

use pipezero_plan::{ElementTypes, Plan};

use super::host_memory::{self, Held, ProcessNeeds};
use super::limits::Limited;
use super::{Engine, EngineError, threads};
use crate::world::{RanksOnDevice, World};

impl Engine {
    /// Checks that this host has the device, the memory and the threads that the plan's ranks need here.
    ///
    /// # Errors
    /// [`EngineError::Device`], [`EngineError::Memory`] and [`EngineError::Threads`].
    pub fn check_host(plan: &Plan, world: &dyn World) -> Result<(), EngineError> {
        Self::check_host_beside(plan, world, Held::Program)
    }

    /// As [`Engine::check_host`], and what the processes of a host need together. Every process of the world calls it, before it reads its text.
    ///
    /// # Errors
    /// As [`Engine::check_host`]; [`EngineError::MemoryOfProcesses`] in one process of a host that has too little memory for its processes, and
    /// [`EngineError::Elsewhere`] in the others; when another process stops.
    pub fn check_hosts(plan: &Plan, world: &dyn World) -> Result<(), EngineError> {
        Self::check_host(plan, world)?;
        host_memory::check_processes(plan, world, Held::Program)
    }

    /// `held`: what the process has allocated of its needs.
    pub(super) fn check_host_beside(plan: &Plan, world: &dyn World, held: Held) -> Result<(), EngineError> {
        let computed = ElementTypes::computed_in(plan.run());
        threads::check(plan, world.local_ranks().len(), threads::max_threads())?;
        let needs = ProcessNeeds::of(plan, &world.local_ranks().collect::<Vec<_>>());
        Limited::of(plan, &needs, held).check()?;
        for of_device in world.devices() {
            let RanksOnDevice { on, number, ranks } = &of_device;
            if !on.device.computes_in(computed) {
                return Err(EngineError::Device { computed, device: on.name.clone() });
            }
            let (memory, free_bytes) = host_memory::of_device(*number, on)?;
            let available_bytes = host_memory::may_have(&needs, held, &memory, free_bytes);
            host_memory::check(plan, ranks, memory, available_bytes)?;
        }
        Ok(())
    }
}
