//! A rank's communicator over MPI.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipezero_models::{Device, Queue};

use super::announcement::{Identity, number_of};
use super::departed::Departed;
use super::order::{Order, Outcome};
use super::progress_thread::ProgressThread;
use super::wire::MpiError;
use crate::communicator::{Communicator, IsStopped, Pending, Started};
use crate::error::CommError;
use crate::exchange::Payload;
use crate::finish::finish;
use crate::group::{Channel, ChannelKey, Group, place};
use crate::memory::TrackedBuffer;
use crate::operation::Operation;

/// Ranks of a job that follow each other, each a process that MPI knows. They are numbered from 0.
pub(crate) struct Processes {
    progress_thread: &'static ProgressThread,
    /// That of the job which is rank 0 here.
    first: usize,
    size: usize,
    world: u64,
    timeout: Duration,
    is_taken: AtomicBool,
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processes").field("first", &self.first).field("size", &self.size()).finish()
    }
}

impl Processes {
    /// These of the job, as far as it has them; no wait lasts longer than `timeout`. All processes of the job call it as often, and
    /// [`Processes::meet`] after it.
    ///
    /// # Errors
    /// When MPI cannot be started.
    pub(crate) fn of_job(ranks: Range<usize>, timeout: Duration) -> Result<Self, MpiError> {
        let progress_thread = ProgressThread::of_process()?;
        let (first, end) = (ranks.start, progress_thread.size().min(ranks.end));
        let world = progress_thread.next_world();
        let is_taken = AtomicBool::new(false);
        Ok(Self { progress_thread, first, size: end.saturating_sub(first), world, timeout, is_taken })
    }

    /// The rank of this process, if it has one here.
    pub(crate) fn own_rank(&self) -> Option<usize> {
        self.progress_thread.rank().checked_sub(self.first).filter(|rank| *rank < self.size)
    }

    fn rank(&self) -> usize {
        self.own_rank().expect("a process that has a rank here is asked for it")
    }

    /// The rank of this process in the job.
    pub(crate) fn job_rank(&self) -> usize {
        self.progress_thread.rank()
    }

    /// Number of all processes of the job.
    pub(crate) fn job_size(&self) -> usize {
        self.progress_thread.size()
    }

    /// Number of processes that have a rank here.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Waits for all processes of the job, this time at most. Each gets the bytes of rank 0's, and gives as many.
    ///
    /// # Errors
    /// When they do not come, or MPI fails.
    pub(crate) fn meet(&self, bytes: Vec<u8>, time: Duration) -> Result<Vec<u8>, MpiError> {
        self.progress_thread.meet(bytes, time)
    }

    /// Sends the report of this process's rank to all others.
    pub(crate) fn report(&self, report: Vec<u8>) {
        let of_job = self.first..self.first + self.size;
        let others = of_job.filter(|&rank| rank != self.progress_thread.rank()).collect();
        self.progress_thread.report(self.world, report, others);
    }

    /// Waits end once all have stopped, or a rank has left that has not joined; and once any has left, `first_left` the lowest, waits for all
    /// processes to meet for a next world. `failed` takes the reports of other ranks.
    pub(crate) fn watch(
        &self,
        is_stopped: impl Fn() -> bool + Send + 'static,
        has_left: impl Fn(usize) -> bool + Send + 'static,
        first_left: impl Fn() -> Option<usize> + Send + 'static,
        failed: impl Fn(usize, Vec<u8>) + Send + 'static,
    ) {
        // MPI knows processes by their ranks in the job.
        let first = self.first;
        let departed = Departed {
            is_stopped: Box::new(is_stopped),
            has_left: Box::new(has_left),
            first_left: Box::new(move || first_left().map(|rank| first + rank)),
            failed: Box::new(move |rank, report| {
                if let Some(rank) = rank.checked_sub(first) {
                    failed(rank, report);
                }
            }),
        };
        self.progress_thread.watch(self.world, Some(departed));
    }

    /// The communicator of this process's rank, which computes on this device.
    ///
    /// # Errors
    /// When the device gives no queue, or there is one already.
    pub(crate) fn communicator(
        &self,
        device: &dyn Device,
        is_stopped: IsStopped,
    ) -> Result<Box<dyn Communicator>, CommError> {
        let queue = device.queue()?;
        if self.is_taken.swap(true, Ordering::AcqRel) {
            return Err(CommError::Taken { rank: self.rank() });
        }
        let Self { progress_thread, first, size, world, timeout, .. } = *self;
        Ok(Box::new(MpiCommunicator {
            progress_thread,
            first,
            size,
            world,
            timeout,
            queue,
            is_stopped,
            rounds: HashMap::new(),
        }))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.progress_thread.watch(self.world, None);
    }
}

struct MpiCommunicator {
    progress_thread: &'static ProgressThread,
    /// The rank of the job that is rank 0 here.
    first: usize,
    size: usize,
    world: u64,
    timeout: Duration,
    queue: Arc<dyn Queue>,
    is_stopped: IsStopped,
    /// The number of each key, and of its next operation.
    rounds: HashMap<ChannelKey, Identity>,
}

impl std::fmt::Debug for MpiCommunicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MpiCommunicator").field("rank", &self.rank()).finish_non_exhaustive()
    }
}

impl MpiCommunicator {
    fn check(&self) -> Result<(), CommError> {
        if (self.is_stopped)() { Err(CommError::Stopped) } else { Ok(()) }
    }

    fn join(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        payload: Payload,
    ) -> Result<MpiPending, CommError> {
        self.check()?;
        let position = place(members, self.rank(), self.world_size())?;
        let world = self.world;
        let next = self.rounds.entry((members.to_vec(), channel));
        let next = match next {
            Entry::Occupied(used) => used.into_mut(),
            Entry::Vacant(new) => {
                let key = number_of(world, new.key());
                new.insert(Identity { key, round: 0 })
            }
        };
        let identity = *next;
        next.round += 1;
        // The progress thread reads and writes the payload from now on.
        finish(&*self.queue, self.timeout, self.world_size(), || self.check())?;
        let outcome = Arc::new(Outcome::of(members, position));
        let order = Order {
            world: self.world,
            first: self.first,
            identity,
            members: members.to_vec(),
            position,
            operation: operation.clone(),
            payload,
            outcome: Arc::clone(&outcome),
        };
        self.progress_thread.carry(order)?;
        Ok(MpiPending { outcome, operation, timeout: self.timeout })
    }
}

impl Communicator for MpiCommunicator {
    fn rank(&self) -> usize {
        self.progress_thread.rank() - self.first
    }

    fn world_size(&self) -> usize {
        self.size
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
        operation.check(members, &buffer)?;
        Ok(Box::new(self.join(members, channel, operation, Payload::Elements(buffer))?))
    }

    fn finish(&mut self) -> Result<(), CommError> {
        finish(&*self.queue, self.timeout, self.world_size(), || self.check())
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        let operation = Operation::AddWords { num_words: words.len() };
        let payload = Payload::Words(words.to_vec());
        let pending = self.join(group.ranks(), Channel::Words, operation, payload)?;
        match pending.outcome.wait(&pending.operation, pending.timeout)? {
            Payload::Words(sums) => words.copy_from_slice(&sums),
            Payload::Elements(_) => unreachable!("words went in, words come out"),
        }
        Ok(())
    }
}

/// A started operation.
#[derive(Debug)]
#[must_use = "an operation completes only when it is waited for"]
struct MpiPending {
    outcome: Arc<Outcome>,
    operation: Operation,
    timeout: Duration,
}

impl Pending for MpiPending {
    fn wait(self: Box<Self>) -> Result<TrackedBuffer, CommError> {
        match self.outcome.wait(&self.operation, self.timeout)? {
            Payload::Elements(buffer) => Ok(buffer),
            Payload::Words(_) => unreachable!("elements went in, elements come out"),
        }
    }
}
