//! Whether the memory of this host, or of its device, is enough for a plan, before anything is allocated.
//!
//! The system grants memory that does not exist and ends the process that then uses it, so an allocation that succeeds
//! proves nothing.

use pipezero_partition::Purpose;

use super::error::EngineError;
use super::shared_memory::SharedMemory;
use crate::plan::{CountedRanks, Plan};
use crate::run::executor::bytes_between_steps;

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
    let between_steps_bytes = match memory {
        SharedMemory::Host => 0,
        // A GPU refuses what it does not have, however late and however little it is.
        SharedMemory::Gpu { .. } => num_ranks as u64 * bytes_between_steps(plan, purpose),
    };
    let needed_bytes = plan.needed_bytes(purpose, ranks.iter().copied()).saturating_add(between_steps_bytes);
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

#[cfg(test)]
mod tests;
