//! Whether the memory of this host, or of its device, is enough for a plan, before anything is allocated.
//!
//! The system grants memory that does not exist and ends the process that then uses it, so an allocation that succeeds
//! proves nothing.

use pipezero_comm::CommError;
use pipezero_comm::world::NamedDevice;
use pipezero_files::host;
use pipezero_models::queue::MemoryInUse;
use pipezero_plan::{Change, CountedRanks, Needs, Plan};

use super::error::EngineError;
use super::shared_memory::SharedMemory;
use crate::executor::scratch_bytes;

mod process_needs;
mod processes;

pub(super) use process_needs::Held;
pub use process_needs::{ProcessNeeds, ProcessRow};
pub(super) use processes::check_processes;

/// Refuses a plan of which these ranks, all that use a memory, need more than is free of it.
///
/// # Errors
/// [`EngineError::Memory`], with the changes that make the run fit.
pub(super) fn check(
    plan: &Plan,
    ranks: &[usize],
    memory: SharedMemory,
    available_bytes: Option<u64>,
) -> Result<(), EngineError> {
    let Some(available_bytes) = available_bytes else { return Ok(()) };
    let num_ranks = ranks.len();
    let beside_bytes = beside_bytes(plan, ranks, &memory);
    let needed_bytes = plan.needed_bytes(ranks.iter().copied()).saturating_add(beside_bytes);
    if needed_bytes <= available_bytes {
        return Ok(());
    }
    let is_whole = num_ranks == plan.grid().world_size();
    let counted = if is_whole { CountedRanks::All } else { CountedRanks::Some(num_ranks) };
    let changes =
        plan.changes_that_fit(|needs| counted.bytes(needs).saturating_add(beside_bytes) <= available_bytes);
    let whole = |Change { description, needs }| {
        let Needs { rank_bytes, world_bytes } = needs;
        Change {
            description,
            needs: Needs { rank_bytes, world_bytes: world_bytes.saturating_add(beside_bytes) },
        }
    };
    let changes = changes.into_iter().map(whole).collect();
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

/// Bytes of a memory that a process with these needs may have: the free ones, and those of its needs that it holds already.
pub(super) fn may_have(
    needs: &ProcessNeeds,
    held: Held,
    memory: &SharedMemory,
    free_bytes: Option<u64>,
) -> Option<u64> {
    match memory {
        SharedMemory::Host => Some(free_bytes?.saturating_add(needs.held_bytes(held))),
        SharedMemory::Gpu { .. } => free_bytes,
    }
}

/// What these ranks of a plan, all that use a memory, need of it.
pub(super) fn needed_bytes(plan: &Plan, ranks: &[usize], memory: &SharedMemory) -> u64 {
    let beside_bytes = beside_bytes(plan, ranks, memory);
    plan.needed_bytes(ranks.iter().copied()).saturating_add(beside_bytes)
}

/// Bytes that they still need of it once the program is there, which several engines of a process share.
pub(super) fn still_needed_bytes(plan: &Plan, ranks: &[usize], memory: &SharedMemory) -> u64 {
    match memory {
        SharedMemory::Host => {
            let needs = ProcessNeeds::of(plan, ranks);
            needs.bytes - needs.held_bytes(Held::Program)
        }
        SharedMemory::Gpu { .. } => needed_bytes(plan, ranks, memory),
    }
}

/// Bytes that a memory must have beside the buffers of these ranks.
fn beside_bytes(plan: &Plan, ranks: &[usize], memory: &SharedMemory) -> u64 {
    match memory {
        SharedMemory::Host => ProcessNeeds::of(plan, ranks).beside_bytes(),
        // A GPU refuses what it does not have, however late and however little it is.
        SharedMemory::Gpu { .. } => ranks.len() as u64 * scratch_bytes(plan),
    }
}

#[cfg(test)]
mod tests;
