//! Counts calls and bytes around any backend, so that measured traffic can be compared with the plan.
//!
//! Bytes are those that this rank sends by the direct exchange: `(d - 1)` parts for an all-gather or a
//! reduce-scatter, both for an all-reduce, the payload for a send. Calls in groups of one move nothing and count
//! nothing, nor do calls that were refused.

use std::ops::Range;
use std::sync::Arc;

use pipezero_models::{ElementType, Queue, View};
use pipezero_partition::{Traffic, Volume};

use super::communicator::{Communicator, Started};
use super::error::CommError;
use super::group::{Channel, Group};
use super::operation::Operation;
use crate::memory::{Allocator, TrackedBuffer};

/// A communicator that counts.
#[derive(Debug)]
pub struct Counting {
    inner: Box<dyn Communicator>,
    traffic: Traffic,
}

impl Counting {
    /// Counts around `inner`, from zero.
    pub fn new(inner: Box<dyn Communicator>) -> Self {
        Self { inner, traffic: Traffic::default() }
    }

    /// What was counted since the last call, and counts from zero again.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// Counts what this rank sends for an operation of these members.
    fn count(&mut self, operation: &Operation, members: &[usize]) {
        let kind = match operation {
            Operation::AllGather { .. } => &mut self.traffic.all_gather,
            Operation::ReduceScatter { .. } => &mut self.traffic.reduce_scatter,
            Operation::AllReduce { .. } | Operation::AddWords { .. } => &mut self.traffic.all_reduce,
            Operation::Transfer { .. } if members[0] == self.inner.rank() => &mut self.traffic.send,
            Operation::Transfer { .. } => return,
        };
        if members.len() > 1 {
            *kind += Volume { count: 1, bytes: operation.sent_bytes(members.len()) };
        }
    }
}

impl Communicator for Counting {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn world_size(&self) -> usize {
        self.inner.world_size()
    }

    fn queue(&self) -> &Arc<dyn Queue> {
        self.inner.queue()
    }

    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        buffer: TrackedBuffer,
    ) -> Started {
        let pending = self.inner.start(members, channel, operation.clone(), buffer)?;
        self.count(&operation, members);
        Ok(pending)
    }

    fn start_gather_of(
        &mut self,
        group: &Group,
        shard: View<'_>,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Started {
        let operation = Operation::AllGather { range: range.clone(), element_type: buffer.element_type() };
        let pending = self.inner.start_gather_of(group, shard, buffer, range)?;
        self.count(&operation, group.ranks());
        Ok(pending)
    }

    fn gather_buffer(
        &mut self,
        memory: &Allocator,
        len: usize,
        element_type: ElementType,
    ) -> Result<TrackedBuffer, CommError> {
        self.inner.gather_buffer(memory, len, element_type)
    }

    fn prepare_sums(&mut self, memory: &Allocator) -> Result<(), CommError> {
        self.inner.prepare_sums(memory)
    }

    fn finish(&mut self) -> Result<(), CommError> {
        self.inner.finish()
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        self.inner.all_reduce_words(group, words)?;
        self.count(&Operation::AddWords { num_words: words.len() }, group.ranks());
        Ok(())
    }
}
