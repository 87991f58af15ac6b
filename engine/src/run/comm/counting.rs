//! Counts calls and bytes around any backend, so that measured traffic can be compared with the plan.
//!
//! Bytes are those that this rank sends by the direct exchange: `(d - 1)` parts for an all-gather or a
//! reduce-scatter, both for an all-reduce, the payload for a send. Calls in groups of one move nothing and count
//! nothing, nor do calls that were refused.

use std::ops::Range;

use pipezero_partition::{Traffic, Volume, part_bytes};

use super::communicator::Communicator;
use super::error::CommError;
use super::group::{Channel, Group};
use crate::run::memory::TrackedBuffer;

/// A communicator that counts.
#[derive(Debug)]
pub struct Counting<C> {
    inner: C,
    traffic: Traffic,
}

impl<C: Communicator> Counting<C> {
    /// Counts around `inner`, from zero.
    pub fn new(inner: C) -> Self {
        Self { inner, traffic: Traffic::default() }
    }

    /// What was counted since the last call, and counts from zero again.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    fn count(&mut self, group_size: usize, bytes: u64, kind: impl FnOnce(&mut Traffic) -> &mut Volume) {
        if group_size > 1 {
            let counted = kind(&mut self.traffic);
            counted.count += 1;
            counted.bytes += bytes;
        }
    }
}

impl<C: Communicator> Communicator for Counting<C> {
    type Pending = C::Pending;

    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn world_size(&self) -> usize {
        self.inner.world_size()
    }

    fn start_all_gather(
        &mut self,
        group: &Group,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Result<C::Pending, CommError> {
        let num_bytes = part_bytes(range.len(), group.size(), buffer.element_type().num_bytes());
        let pending = self.inner.start_all_gather(group, buffer, range)?;
        self.count(group.size(), num_bytes, |traffic| &mut traffic.all_gather);
        Ok(pending)
    }

    fn start_reduce_scatter(
        &mut self,
        group: &Group,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Result<C::Pending, CommError> {
        let num_bytes = part_bytes(range.len(), group.size(), buffer.element_type().num_bytes());
        let pending = self.inner.start_reduce_scatter(group, buffer, range)?;
        self.count(group.size(), num_bytes, |traffic| &mut traffic.reduce_scatter);
        Ok(pending)
    }

    fn start_all_reduce(
        &mut self,
        group: &Group,
        channel: Channel,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Result<C::Pending, CommError> {
        let num_bytes = 2 * part_bytes(range.len(), group.size(), buffer.element_type().num_bytes());
        let pending = self.inner.start_all_reduce(group, channel, buffer, range)?;
        self.count(group.size(), num_bytes, |traffic| &mut traffic.all_reduce);
        Ok(pending)
    }

    fn start_send(&mut self, to: usize, edge: u32, buffer: TrackedBuffer) -> Result<C::Pending, CommError> {
        let num_bytes = buffer.num_bytes();
        let pending = self.inner.start_send(to, edge, buffer)?;
        self.count(2, num_bytes, |traffic| &mut traffic.send);
        Ok(pending)
    }

    fn start_receive(
        &mut self,
        from: usize,
        edge: u32,
        buffer: TrackedBuffer,
    ) -> Result<C::Pending, CommError> {
        self.inner.start_receive(from, edge, buffer)
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        self.inner.all_reduce_words(group, words)?;
        let num_bytes = 2 * part_bytes(words.len(), group.size(), size_of::<u64>());
        self.count(group.size(), num_bytes, |traffic| &mut traffic.all_reduce);
        Ok(())
    }
}
