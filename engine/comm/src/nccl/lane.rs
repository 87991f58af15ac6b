//! A channel's communicator, as one of its members uses it.

use std::sync::Arc;

use pipezero_models::queue::{Event, NcclCommunicator};
use pipezero_models::{Queue, View};

use super::reduction::Reduction;
use crate::error::CommError;
use crate::memory::TrackedBuffer;
use crate::operation::Operation;
use crate::part::part;

/// A channel's communicator.
#[derive(Debug)]
pub(super) struct Lane {
    /// World ranks, in their order in the communicator.
    pub(super) members: Vec<usize>,
    pub(super) connection: Arc<NcclCommunicator>,
    /// The stream of its operations.
    pub(super) queue: Arc<dyn Queue>,
    pub(super) reduction: Reduction,
}

impl Lane {
    /// Asks for an operation in which this rank is at `position` of `members`, and which begins when the compute queue has come to this point. Of a
    /// gather this rank's part comes from `shard`, or is in the buffer. Returns the event by which it is done.
    pub(super) fn start(
        &mut self,
        compute: &dyn Queue,
        (members, position): (&[usize], usize),
        operation: &Operation,
        shard: Option<View<'_>>,
        buffer: &mut TrackedBuffer,
    ) -> Result<Event, CommError> {
        self.queue.wait(&compute.record(), operation.waits(position)[0]);
        match operation {
            Operation::AllGather { range, .. } => {
                let whole = buffer.view_mut().range(range.clone());
                match shard {
                    Some(shard) => self.connection.all_gather_of(shard, &whole),
                    None => self.connection.all_gather(&whole),
                }
            }
            Operation::ReduceScatter { range } => self.reduce(buffer, range)?,
            Operation::AllReduce { range } => {
                self.reduce(buffer, range)?;
                self.connection.all_gather(&buffer.view_mut().range(range.clone()));
            }
            Operation::Transfer { num_elements, .. } => {
                let range = 0..*num_elements;
                let place = |rank| self.members.iter().position(|&member| member == rank).unwrap_or(0);
                match position {
                    0 => self.connection.send(place(members[1]), buffer.view().range(range)),
                    _ => self.connection.receive(place(members[0]), buffer.view_mut().range(range)),
                }
            }
            Operation::AddWords { .. } => unreachable!("words go through the world"),
        }
        Ok(self.queue.record())
    }

    fn reduce(
        &mut self,
        buffer: &mut TrackedBuffer,
        range: &std::ops::Range<usize>,
    ) -> Result<(), CommError> {
        let parts: Result<Vec<_>, _> =
            (0..self.members.len()).map(|member| part(range, self.members.len(), member)).collect();
        self.reduction.reduce(&self.connection, &*self.queue, buffer, range, &parts?);
        Ok(())
    }
}
