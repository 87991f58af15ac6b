//! A rank's communicator over NCCL.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::queue::Event;
use pipezero_models::{ElementType, Queue, View};
use pipezero_partition::Category;

use super::lane::Lane;
use super::stop::Stop;
use super::words::Words;
use crate::communicator::{Communicator, Pending, Started, start_gather_of_copy};
use crate::error::CommError;
use crate::finish::finish;
use crate::group::{Channel, Group, place};
use crate::memory::{Allocator, TrackedBuffer};
use crate::operation::Operation;

/// One rank's communicator.
#[derive(Debug)]
pub(super) struct NcclRank {
    pub(super) rank: usize,
    pub(super) world_size: usize,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) lanes: BTreeMap<Channel, Lane>,
    pub(super) words: Words,
    pub(super) stop: Arc<Stop>,
    pub(super) timeout: Duration,
}

impl NcclRank {
    /// Starts an operation, for which this rank's part comes from a shard if there is one.
    fn start_from(
        &mut self,
        shard: Option<View<'_>>,
        members: &[usize],
        channel: Channel,
        operation: &Operation,
        mut buffer: TrackedBuffer,
    ) -> Started {
        self.stop.check()?;
        operation.check(members, &buffer)?;
        let position = place(members, self.rank(), self.world_size())?;
        let waits = operation.waits(position)[1];
        let done = match members {
            [_] => Event::REACHED,
            _ => {
                let lane = self
                    .lanes
                    .get_mut(&channel)
                    .filter(|lane| members.iter().all(|member| lane.members.contains(member)));
                let lane = lane.ok_or_else(|| CommError::NotAMember {
                    rank: members[position],
                    group: members.to_vec(),
                })?;
                self.stop.or_abort(lane.start(
                    &*self.queue,
                    (members, position),
                    operation,
                    shard,
                    &mut buffer,
                ))?
            }
        };
        Ok(Box::new(NcclPending {
            queue: Arc::clone(&self.queue),
            done,
            waits,
            buffer,
            stop: Arc::clone(&self.stop),
        }))
    }
}

impl Communicator for NcclRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.world_size
    }

    fn queue(&self) -> &Arc<dyn Queue> {
        &self.queue
    }

    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        buffer: TrackedBuffer,
    ) -> Started {
        self.start_from(None, members, channel, &operation, buffer)
    }

    /// Nothing is copied, unless elements have to be converted: the gather takes the shard from where it is.
    fn start_gather_of(
        &mut self,
        group: &Group,
        shard: View<'_>,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Started {
        let element_type = buffer.element_type();
        if group.size() == 1 || shard.element_type() != element_type {
            return start_gather_of_copy(self, group, shard, buffer, range);
        }
        let operation = Operation::AllGather { range, element_type };
        self.start_from(Some(shard), group.ranks(), Channel::Gather, &operation, buffer)
    }

    /// The library allocates it, and it is registered with the communicator of gathers.
    fn gather_buffer(
        &mut self,
        memory: &Allocator,
        len: usize,
        element_type: ElementType,
    ) -> Result<TrackedBuffer, CommError> {
        match self.lanes.get(&Channel::Gather) {
            Some(lane) => {
                self.stop.check()?;
                let buffer = lane.connection.zeros(len, element_type, &|| self.stop.is_stopped());
                // Where others have stopped, that is why.
                self.stop.check()?;
                let buffer = self.stop.or_abort(buffer.map_err(CommError::from))?;
                Ok(memory.charged(buffer, Category::Gathered))
            }
            None => Ok(memory.zeros_of(len, element_type, Category::Gathered)?),
        }
    }

    fn prepare_sums(&mut self, memory: &Allocator) -> Result<(), CommError> {
        for lane in self.lanes.values_mut() {
            lane.reduction.prepare(memory)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), CommError> {
        let check = || self.stop.check_connections();
        self.stop.or_abort(finish(&*self.queue, self.timeout, self.world_size(), check))
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        self.stop.check()?;
        let Self { rank, ref lanes, ref stop, .. } = *self;
        // Words are added over all ranks.
        let lane = lanes.get(&Channel::Collect).filter(|lane| lane.members == group.ranks());
        let lane = lane.ok_or_else(|| CommError::NotAMember { rank, group: group.ranks().to_vec() })?;
        let wait = || finish(&*lane.queue, self.timeout, self.world_size, || stop.check_connections());
        stop.or_abort(self.words.add(lane, words, wait))
    }
}

impl Drop for NcclRank {
    /// What was asked for is done before the memory behind it can be freed; it never will be where ranks have stopped.
    fn drop(&mut self) {
        let check = || self.stop.check_connections();
        for lane in self.lanes.values() {
            // Once it has failed, everything is aborted.
            let _ = self.stop.or_abort(finish(&*lane.queue, self.timeout, lane.members.len(), check));
        }
    }
}

/// An operation that a lane was asked for.
#[derive(Debug)]
struct NcclPending {
    queue: Arc<dyn Queue>,
    done: Event,
    /// Why the compute queue waits.
    waits: &'static str,
    buffer: TrackedBuffer,
    stop: Arc<Stop>,
}

impl Pending for NcclPending {
    fn wait(self: Box<Self>) -> Result<TrackedBuffer, CommError> {
        self.stop.check()?;
        self.queue.wait(&self.done, self.waits);
        Ok(self.buffer)
    }
}
