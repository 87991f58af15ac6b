//! The trait that every backend implements.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use pipezero_models::{ElementType, Queue, View};
use pipezero_partition::Category;

use super::error::CommError;
use super::group::{Channel, Group, place};
use super::operation::Operation;
use super::part::part;
use crate::memory::{Allocator, TrackedBuffer};

/// An operation that was started. Dropped without a wait, it still completes for the peers; its own buffer is lost.
#[must_use = "an operation completes only when it is waited for"]
pub trait Pending: Debug {
    /// Returns the buffer, at most after the communicator's time-out. The compute queue waits for the operation, so kernels that it is
    /// asked for afterwards may use the buffer; the host waits only where the backend cannot ask the queue to: the threads backend
    /// until every member has started the operation, and an emulated link has delivered it. After a transfer, each end may hold the
    /// memory that was the other's.
    ///
    /// # Errors
    /// [`CommError::Timeout`] when the time runs out, [`CommError::TooSlow`] as soon as it is known that it will,
    /// [`CommError::Interrupted`] when another rank failed, [`CommError::Mismatch`] when the members have not started the
    /// same operation.
    fn wait(self: Box<Self>) -> Result<TrackedBuffer, CommError>;
}

/// The handle of an operation that was started.
pub type Started = Result<Box<dyn Pending>, CommError>;

/// Whether a rank of any process has failed.
pub(crate) type IsStopped = Arc<dyn Fn() -> bool + Send + Sync>;

/// What a rank uses to communicate with the others; made inside the thread that owns it.
///
/// Every start can fail with [`CommError::Stopped`] once another rank has failed, with [`CommError::NotAMember`] or
/// [`CommError::UnknownRank`] for wrong members, and with [`CommError::Mismatch`] where the peers have started another
/// operation; then its buffer is lost.
pub trait Communicator: Debug {
    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn world_size(&self) -> usize;

    /// The compute queue of this rank. An operation begins after what the queue was asked before its start.
    fn queue(&self) -> &Arc<dyn Queue>;

    /// Starts an operation between these ranks, for which this rank gives a buffer; operations on one channel start in the
    /// same order on all of them. The functions below say what each operation does.
    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        buffer: TrackedBuffer,
    ) -> Started;

    /// All-gather in place: of the range's `group.size()` equal parts, this rank contributes its own and all others are filled.
    /// Elements may be of any type, the same on every member; likewise for a transfer.
    ///
    /// * Cost: each rank sends `(d - 1) / d` of the range's bytes.
    /// * Errors: [`CommError::Indivisible`] and [`CommError::OutOfRange`] before any traffic.
    fn start_all_gather(&mut self, group: &Group, buffer: TrackedBuffer, range: Range<usize>) -> Started {
        let operation = Operation::AllGather { range, element_type: buffer.element_type() };
        self.start(group.ranks(), Channel::Gather, operation, buffer)
    }

    /// All-gather of shards that lie elsewhere: this rank's is copied to its part of the range, or taken from where it is, and stays as it is until
    /// the gather has ended.
    ///
    /// * Cost, errors: as for an all-gather in place.
    fn start_gather_of(
        &mut self,
        group: &Group,
        shard: View<'_>,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Started {
        start_gather_of_copy(self, group, shard, buffer, range)
    }

    /// Reduce-scatter in place: this rank's part of the range becomes the sum; the other parts are unspecified.
    ///
    /// * Cost: each rank sends `(d - 1) / d` of the range's bytes.
    /// * Errors: [`CommError::NotSummed`] unless the elements are f32, [`CommError::Indivisible`] and
    ///   [`CommError::OutOfRange`], all before any traffic.
    /// * Source: ZeRO, arXiv:1910.02054, section 5 (gradient partitioning).
    fn start_reduce_scatter(&mut self, group: &Group, buffer: TrackedBuffer, range: Range<usize>) -> Started {
        self.start(group.ranks(), Channel::Reduce, Operation::ReduceScatter { range }, buffer)
    }

    /// All-reduce in place: the whole range becomes the sum on every member.
    ///
    /// * Cost: a reduce-scatter and an all-gather.
    /// * Errors: as for a reduce-scatter.
    fn start_all_reduce(
        &mut self,
        group: &Group,
        channel: Channel,
        buffer: TrackedBuffer,
        range: Range<usize>,
    ) -> Started {
        self.start(group.ranks(), channel, Operation::AllReduce { range }, buffer)
    }

    /// Sends a buffer; its contents are unspecified when it comes back.
    ///
    /// * Errors: as for its first elements; likewise for a receive.
    fn start_send(&mut self, to: usize, edge: u32, buffer: TrackedBuffer) -> Started {
        let num_elements = buffer.len();
        self.start_send_first(to, edge, buffer, num_elements)
    }

    /// Receives into a buffer of the same length and type as the sender's.
    fn start_receive(&mut self, from: usize, edge: u32, buffer: TrackedBuffer) -> Started {
        let num_elements = buffer.len();
        self.start_receive_first(from, edge, buffer, num_elements)
    }

    /// Sends the first elements of a buffer.
    ///
    /// * Errors: [`CommError::ToItself`] and [`CommError::OutOfRange`] before any traffic; likewise for a receive.
    fn start_send_first(
        &mut self,
        to: usize,
        edge: u32,
        buffer: TrackedBuffer,
        num_elements: usize,
    ) -> Started {
        let (operation, ends) = (Operation::transfer(&buffer, num_elements), [self.rank(), to]);
        self.start(&ends, Channel::Edge(edge), operation, buffer)
    }

    /// Receives as many elements as are sent, of the same type, into the beginning of a buffer; what lies behind them is unspecified
    /// afterwards.
    fn start_receive_first(
        &mut self,
        from: usize,
        edge: u32,
        buffer: TrackedBuffer,
        num_elements: usize,
    ) -> Started {
        let (operation, ends) = (Operation::transfer(&buffer, num_elements), [from, self.rank()]);
        self.start(&ends, Channel::Edge(edge), operation, buffer)
    }

    /// Moves what a buffer of `from` holds into one of `to`, outside a program; both of them start it.
    ///
    /// * Errors: as for a send.
    fn start_collect(&mut self, from: usize, to: usize, buffer: TrackedBuffer) -> Started {
        let operation = Operation::transfer(&buffer, buffer.len());
        self.start(&[from, to], Channel::Collect, operation, buffer)
    }

    /// Allocates a buffer in which all-gathers land. All ranks of a data group allocate theirs in the same order, each with the same sizes.
    ///
    /// # Errors
    /// When the device has no such memory left.
    fn gather_buffer(
        &mut self,
        memory: &Allocator,
        len: usize,
        element_type: ElementType,
    ) -> Result<TrackedBuffer, CommError> {
        Ok(memory.zeros_of(len, element_type, Category::Gathered)?)
    }

    /// Allocates what sums of a training rank need, before the first of them.
    ///
    /// # Errors
    /// When the device has no such memory left.
    fn prepare_sums(&mut self, _: &Allocator) -> Result<(), CommError> {
        Ok(())
    }

    /// Returns when this rank's compute queue has come to this point, and with it all operations between ranks that it waits for. What
    /// the queue has computed can then be downloaded at once.
    ///
    /// # Errors
    /// [`CommError::Unfinished`] after the communicator's time-out, [`CommError::Stopped`] when another rank failed meanwhile,
    /// [`CommError::Device`] when the device did.
    fn finish(&mut self) -> Result<(), CommError>;

    /// Adds words over the group (wrapping), blocking; every member gets the sum.
    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError>;
}

/// Copies this rank's shard to its part of the range, and gathers in place.
pub(super) fn start_gather_of_copy(
    comm: &mut (impl Communicator + ?Sized),
    group: &Group,
    shard: View<'_>,
    mut buffer: TrackedBuffer,
    range: Range<usize>,
) -> Started {
    let position = place(group.ranks(), comm.rank(), comm.world_size())?;
    let own = part(&range, group.size(), position)?;
    comm.queue().copy(shard, buffer.view_mut().range(own));
    comm.start_all_gather(group, buffer, range)
}
