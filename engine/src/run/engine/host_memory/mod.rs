//! Whether the memory of this host, or of its device, is enough for a plan, before anything is allocated.
//!
//! The system grants memory that does not exist and ends the process that then uses it, so an allocation that succeeds
//! proves nothing.

use pipezero_partition::Purpose;

use super::error::EngineError;
use crate::plan::Plan;
use crate::run::world::RanksOnDevice;

/// The host's memory, in an error.
pub(super) const ON_HOST: &str = "on this host or to its control group";

/// The memory of a GPU of this number, in an error.
pub(super) fn on_gpu(index: usize, gpu: &RanksOnDevice) -> String {
    let name = &gpu.on.name;
    match gpu.ranks.len() {
        1 => format!("on GPU {index} ({name}); `device` \"cpu\" takes the host's"),
        num_ranks => format!(
            "on GPU {index} ({name}), which {num_ranks} ranks share, fewer with more GPUs; `device` \"cpu\" takes the host's"
        ),
    }
}

/// Refuses a plan of which these ranks, all that use a memory, need more than it has.
///
/// # Errors
/// [`EngineError::Memory`], with the changes that make the run fit.
pub(super) fn check(
    plan: &Plan,
    purpose: Purpose,
    ranks: &[usize],
    available_bytes: Option<u64>,
    place: impl Into<String>,
) -> Result<(), EngineError> {
    let needed_bytes = plan.needed_bytes(purpose, ranks.iter().copied());
    match available_bytes {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let num_ranks = ranks.len();
            let is_whole = num_ranks == plan.grid().world_size();
            // Which ranks of a changed plan would be here is not known: each may be the fullest.
            let changes = plan.changes_that_fit(purpose, |needs| {
                let fullest_bytes = needs.rank_bytes.saturating_mul(num_ranks as u64);
                let bytes = if is_whole { needs.world_bytes } else { fullest_bytes };
                bytes <= available_bytes
            });
            Err(EngineError::Memory {
                num_ranks,
                needed_bytes,
                available_bytes,
                place: place.into(),
                changes,
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
