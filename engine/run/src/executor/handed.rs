//! What one rank hands to rank 0 outside a program: pieces of parameters, logits.

use pipezero_comm::memory::{Allocator, Category};
use pipezero_comm::{Communicator, Counting};
use pipezero_models::{Queue, View};

use super::error::Cause;

/// Elements that one rank hands to rank 0 outside a program.
pub(super) struct Handed<'a> {
    /// The rank that has them.
    pub(super) holder: usize,
    /// The elements, on the rank that holds them.
    pub(super) from: Option<View<'a>>,
    pub(super) len: usize,
    /// Where buffers come from.
    pub(super) memory: &'a Allocator,
}

impl Handed<'_> {
    /// The elements in f32, on the host of rank 0; both ranks call it.
    pub(super) fn hand_over(self, comm: &mut Counting, queue: &dyn Queue) -> Result<Option<Vec<f32>>, Cause> {
        let Self { holder, from, len, memory } = self;
        // A device waits for all that is under way before it gives new memory, and would notice no failure meanwhile.
        comm.finish()?;
        let mut buffer = memory.zeros(len, Category::Communication)?;
        if let Some(from) = from {
            queue.copy(from, buffer.view_mut());
        }
        if holder > 0 {
            buffer = comm.start_collect(holder, 0, buffer)?.wait()?;
        }
        // Nobody would notice what fails while the rank waits for its next command.
        comm.finish()?;
        if comm.rank() > 0 {
            return Ok(None);
        }
        let mut values = vec![0.0; len];
        queue.download_floats(buffer.view(), &mut values)?;
        Ok(Some(values))
    }
}
