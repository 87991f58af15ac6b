//! Ranks that have a GPU each, which NCCL connects: threads of this process, or processes that a launcher has started.

mod agreement;
mod environment;
mod gpu;
mod processes;
mod spare_channels;
mod threads;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_files::host::LaunchedProcess;

use super::World;
use super::error::WorldError;
use super::spec::WorldSpec;
pub use environment::missing_variable;

/// A world of an engine's ranks, which are these of the job where ranks are processes. `around` is what connects all processes already, if anything does;
/// the world is then `None` in those that have none of the ranks.
///
/// # Errors
/// When a variable is not as NCCL needs it, a rank has no GPU of its own, there is no NCCL, or the processes do not find each other.
pub(super) fn nccl_of(
    spec: &WorldSpec,
    ranks: Range<usize>,
    timeout: Duration,
    around: Option<&dyn World>,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    environment::check(spec)?;
    match LaunchedProcess::this()? {
        Some(launched) if launched.size > 1 => processes::world((spec, ranks), &launched, timeout, around),
        _ => threads::world(spec, timeout).map(Some),
    }
}
