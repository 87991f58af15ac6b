//! Whether the memory of this host, or of its device, is enough for a plan, before anything is allocated.
//!
//! The system grants memory that does not exist and ends the process that then uses it, so an allocation that succeeds
//! proves nothing.

use pipezero_comm::CommError;
use pipezero_comm::world::NamedDevice;
use pipezero_files::host;
use pipezero_models::queue::MemoryInUse;
use pipezero_partition::Purpose;
use pipezero_plan::{CountedRanks, Plan};

use super::error::EngineError;
use super::shared_memory::SharedMemory;
use crate::executor::scratch_bytes;

/// Refuses a plan of which these ranks, all that use a memory, need more than is free of it.
///
/// # Errors
/// [`EngineError::Memory`], with the changes that make the run fit.
pub(super) fn check(
    plan: &Plan,
    purpose: Purpose,
    ranks: &[usize],
    memory: SharedMemory,
    available_bytes: Option<u64>,
) -> Result<(), EngineError> {
    let Some(available_bytes) = available_bytes else { return Ok(()) };
    let num_ranks = ranks.len();
    let between_steps_bytes = between_steps_bytes(plan, purpose, num_ranks, &memory);
    let needed_bytes = needed_bytes(plan, purpose, ranks, &memory);
    if needed_bytes <= available_bytes {
        return Ok(());
    }
    let is_whole = num_ranks == plan.grid().world_size();
    let counted = if is_whole { CountedRanks::All } else { CountedRanks::Some(num_ranks) };
    let changes = plan.changes_that_fit(purpose, |needs| {
        counted.bytes(needs).saturating_add(between_steps_bytes) <= available_bytes
    });
    Err(EngineError::Memory { num_ranks, needed_bytes, available_bytes, memory, changes, counted })
}

/// The memory of a device of this number, and what is free of it, as far as the system says.
///
/// # Errors
/// When the device does not answer.
pub(super) fn of_device(number: usize, on: &NamedDevice) -> Result<(SharedMemory, Option<u64>), EngineError> {
    Ok(match on.device.memory().map_err(CommError::from)? {
        None => (SharedMemory::Host, host::available_bytes()),
        Some(MemoryInUse { total_bytes, free_bytes, .. }) => {
            (SharedMemory::Gpu { number, name: on.name.clone(), total_bytes }, Some(free_bytes))
        }
    })
}

/// What these ranks of a plan, all that use a memory, need of it.
pub(super) fn needed_bytes(plan: &Plan, purpose: Purpose, ranks: &[usize], memory: &SharedMemory) -> u64 {
    let between_steps_bytes = between_steps_bytes(plan, purpose, ranks.len(), memory);
    plan.needed_bytes(purpose, ranks.iter().copied()).saturating_add(between_steps_bytes)
}

fn between_steps_bytes(plan: &Plan, purpose: Purpose, num_ranks: usize, memory: &SharedMemory) -> u64 {
    match memory {
        SharedMemory::Host => 0,
        // A GPU refuses what it does not have, however late and however little it is.
        SharedMemory::Gpu { .. } => num_ranks as u64 * scratch_bytes(plan, purpose),
    }
}

#[cfg(test)]
mod tests;
