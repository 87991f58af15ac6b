//! How a rank waits for its own compute queue.

use std::time::Duration;

use pipezero_models::Queue;

use super::error::CommError;
use crate::sync::{Instant, thread};

/// Returns when the queue has come to this point, unless `check` fails before.
///
/// # Errors
/// As [`Communicator::finish`](super::Communicator::finish).
pub(super) fn finish(
    queue: &dyn Queue,
    timeout: Duration,
    world_size: usize,
    check: impl Fn() -> Result<(), CommError>,
) -> Result<(), CommError> {
    let (start, here) = (Instant::now(), queue.record());
    while !queue.has_reached(&here)? {
        check()?;
        let waited = start.elapsed();
        // A rank alone waits for nobody but itself.
        if waited > timeout && world_size > 1 {
            return Err(CommError::Unfinished { waited });
        }
        thread::yield_now();
    }
    Ok(())
}
