//! Ranks are threads of one process and meet in shared memory: the default backend, no system packages.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pipezero_models::ElementType;

use super::exchange::{Operation, Payload};
use super::meeting::Meeting;
use super::shaping::{LinkStates, Place};
use super::{Channel, CommError, Communicator, Group, Pending, part};
use crate::config::Links;
use crate::run::memory::Tagged;

/// What the ranks of one process share.
#[derive(Debug)]
pub struct ThreadWorld {
    size: usize,
    timeout: Duration,
    stopped: AtomicBool,
    meetings: Mutex<BTreeMap<Place, Arc<Meeting>>>,
    /// The links that are imitated, if any.
    links: Option<LinkStates>,
}

impl ThreadWorld {
    /// A world of `size` ranks in which no wait is longer than `timeout` and messages are as fast as memory.
    pub fn new(size: usize, timeout: Duration) -> Arc<Self> {
        Self::with_links(size, timeout, None)
    }

    /// A world of `size` ranks in which no wait is longer than `timeout` and messages take as long as on such links.
    pub fn shaped(size: usize, timeout: Duration, links: Links) -> Arc<Self> {
        Self::with_links(size, timeout, Some(LinkStates::new(links)))
    }

    fn with_links(size: usize, timeout: Duration, links: Option<LinkStates>) -> Arc<Self> {
        Arc::new(Self { size, timeout, stopped: AtomicBool::new(false), meetings: Mutex::default(), links })
    }

    /// The communicator of one rank; each rank has exactly one.
    pub fn communicator(self: &Arc<Self>, rank: usize) -> ThreadCommunicator {
        ThreadCommunicator { world: Arc::clone(self), rank, places: HashMap::new() }
    }

    /// A rank failed: ends every wait with [`CommError::Interrupted`] and refuses every start with
    /// [`CommError::Stopped`]. What has been exchanged can still be collected, at once where a link would delay it.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Meetings that are made after this look are made by ranks that see the flag.
        let meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        meetings.values().for_each(|meeting| meeting.wake());
    }

    fn meeting(&self, place: Place) -> Arc<Meeting> {
        let mut meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = |place: &Place| {
            let link = self.links.as_ref().and_then(|links| links.link(place));
            Arc::new(Meeting::new(place.0.clone(), link))
        };
        Arc::clone(meetings.entry(place).or_insert_with_key(meeting))
    }
}

/// One rank's communicator.
#[derive(Debug)]
pub struct ThreadCommunicator {
    world: Arc<ThreadWorld>,
    rank: usize,
    /// Each meeting place that this rank has used, and the number of its next round there.
    places: HashMap<Place, (Arc<Meeting>, u64)>,
}

impl ThreadCommunicator {
    fn start(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        payload: Payload,
    ) -> Result<ThreadPending, CommError> {
        if self.world.stopped.load(Ordering::Acquire) {
            return Err(CommError::Stopped);
        }
        let world_size = self.world.size;
        if let Some(&rank) = members.iter().find(|&&rank| rank >= world_size) {
            return Err(CommError::UnknownRank { rank, world_size });
        }
        let position = members
            .iter()
            .position(|&member| member == self.rank)
            .ok_or_else(|| CommError::NotAMember { rank: self.rank, group: members.to_vec() })?;
        let place = (members.to_vec(), channel);
        let (meeting, next) =
            self.places.entry(place).or_insert_with_key(|place| (self.world.meeting(place.clone()), 0));
        let round = *next;
        *next += 1;
        meeting.join(round, position, operation, payload)?;
        Ok(ThreadPending { world: Arc::clone(&self.world), meeting: Arc::clone(meeting), round, position })
    }

    fn collective(
        &mut self,
        group: &Group,
        channel: Channel,
        operation: Operation,
        range: &Range<usize>,
        buffer: Tagged,
    ) -> Result<ThreadPending, CommError> {
        part(range, group.size(), 0)?;
        if range.end > buffer.len() {
            let (start, end, len) = (range.start, range.end, buffer.len());
            return Err(CommError::OutOfRange { start, end, len });
        }
        self.start(group.ranks(), channel, operation, Payload::Elements(buffer))
    }

    fn sum(
        &mut self,
        group: &Group,
        channel: Channel,
        operation: Operation,
        range: &Range<usize>,
        buffer: Tagged,
    ) -> Result<ThreadPending, CommError> {
        match buffer.element_type() {
            ElementType::F32 => self.collective(group, channel, operation, range, buffer),
            element_type => Err(CommError::NotSummed { element_type }),
        }
    }

    /// From the first rank to the second.
    fn transfer(&mut self, ends: [usize; 2], edge: u32, buffer: Tagged) -> Result<ThreadPending, CommError> {
        if ends[0] == ends[1] {
            return Err(CommError::ToItself { rank: self.rank });
        }
        let operation =
            Operation::Transfer { num_elements: buffer.len(), element_type: buffer.element_type() };
        self.start(&ends, Channel::Edge(edge), operation, Payload::Elements(buffer))
    }
}

impl Communicator for ThreadCommunicator {
    type Pending = ThreadPending;

    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.world.size
    }

    fn start_all_gather(
        &mut self,
        group: &Group,
        buffer: Tagged,
        range: Range<usize>,
    ) -> Result<ThreadPending, CommError> {
        let operation = Operation::AllGather { range: range.clone(), element_type: buffer.element_type() };
        self.collective(group, Channel::Gather, operation, &range, buffer)
    }

    fn start_reduce_scatter(
        &mut self,
        group: &Group,
        buffer: Tagged,
        range: Range<usize>,
    ) -> Result<ThreadPending, CommError> {
        let operation = Operation::ReduceScatter { range: range.clone() };
        self.sum(group, Channel::Reduce, operation, &range, buffer)
    }

    fn start_all_reduce(
        &mut self,
        group: &Group,
        channel: Channel,
        buffer: Tagged,
        range: Range<usize>,
    ) -> Result<ThreadPending, CommError> {
        self.sum(group, channel, Operation::AllReduce { range: range.clone() }, &range, buffer)
    }

    fn start_send(&mut self, to: usize, edge: u32, buffer: Tagged) -> Result<ThreadPending, CommError> {
        self.transfer([self.rank, to], edge, buffer)
    }

    fn start_receive(&mut self, from: usize, edge: u32, buffer: Tagged) -> Result<ThreadPending, CommError> {
        self.transfer([from, self.rank], edge, buffer)
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        let operation = Operation::AddWords { num_words: words.len() };
        let payload = Payload::Words(words.to_vec());
        match self.start(group.ranks(), Channel::Words, operation, payload)?.collect()? {
            Payload::Words(sums) => words.copy_from_slice(&sums),
            Payload::Elements(_) => unreachable!("words went in, words come out"),
        }
        Ok(())
    }
}

/// An operation of the threads backend under way.
#[derive(Debug)]
#[must_use = "an operation ends only when it is waited for"]
pub struct ThreadPending {
    world: Arc<ThreadWorld>,
    meeting: Arc<Meeting>,
    round: u64,
    position: usize,
}

impl ThreadPending {
    fn collect(self) -> Result<Payload, CommError> {
        let world = &self.world;
        let is_stopped = || world.stopped.load(Ordering::Acquire);
        self.meeting.collect(self.round, self.position, world.timeout, is_stopped)
    }
}

impl Drop for ThreadPending {
    /// After a wait as without one: a round that nobody needs any more is forgotten.
    fn drop(&mut self) {
        self.meeting.leave(self.round, self.position);
    }
}

impl Pending for ThreadPending {
    fn wait(self) -> Result<Tagged, CommError> {
        match self.collect()? {
            Payload::Elements(buffer) => Ok(buffer),
            Payload::Words(_) => unreachable!("elements went in, elements come out"),
        }
    }
}
