//! What a rank sends to rank 0 outside a program: pieces of parameters, logits.

use pipezero_comm::memory::{Allocator, Category};
use pipezero_comm::{Communicator, Counting};
use pipezero_models::{Queue, View};

use super::error::Cause;

/// Elements that a rank sends to rank 0 outside a program.
pub(super) struct ToRankZero<'a> {
    /// The rank that has them.
    pub(super) holder: usize,
    /// The elements, on the rank that holds them.
    pub(super) from: Option<View<'a>>,
    pub(super) len: usize,
    /// Where buffers come from.
    pub(super) memory: &'a Allocator,
}

impl ToRankZero<'_> {
    /// Sends the elements. Both ranks call it; rank 0 gets them in f32, on its host.
    pub(super) fn send_to_rank_zero(
        self,
        comm: &mut Counting,
        queue: &dyn Queue,
    ) -> Result<Option<Vec<f32>>, Cause> {
        let Self { holder, from, len, memory } = self;
        // A device waits for everything in flight before it gives new memory, and would notice no failure meanwhile.
        comm.finish()?;
        let mut buffer = memory.zeros(len, Category::Communication)?;
        if let Some(from) = from {
            queue.copy(from, buffer.view_mut());
        }
        if holder > 0 {
            buffer = comm.start_collect(holder, 0, buffer)?.wait()?;
        }
        // Wait here: a later failure would go unreported while the rank waits for its next command.
        comm.finish()?;
        if comm.rank() > 0 {
            return Ok(None);
        }
        let mut values = vec![0.0; len];
        queue.download_floats(buffer.view(), &mut values)?;
        Ok(Some(values))
    }
}
