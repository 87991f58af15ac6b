//! Whether the memory of this host is enough for a plan, before anything is allocated.
//!
//! The system grants memory that does not exist and ends the process that then uses it, so an allocation that succeeds
//! proves nothing.

use pipezero_partition::Purpose;

use super::error::EngineError;
use crate::plan::Plan;

/// Refuses a plan whose ranks need more memory than this host has.
///
/// # Errors
/// [`EngineError::Memory`], with the changes that make the run fit.
pub(super) fn check(plan: &Plan, purpose: Purpose, available_bytes: Option<u64>) -> Result<(), EngineError> {
    let needed_bytes = plan.needs_for(purpose).world_bytes;
    match available_bytes {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let changes = plan.changes_that_fit(purpose, |needs| needs.world_bytes <= available_bytes);
            let num_ranks = plan.grid().world_size();
            Err(EngineError::Memory { num_ranks, needed_bytes, available_bytes, changes })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
