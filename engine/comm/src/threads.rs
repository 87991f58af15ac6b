//! Ranks are threads of one process and exchange buffers in shared memory: the default backend, no system packages.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_config::Links;
use pipezero_models::queue::Event;
use pipezero_models::{Device, Queue};

use super::communicator::{Communicator, Pending, Started};
use super::error::CommError;
use super::exchange::Payload;
use super::finish::finish;
use super::group::{Channel, ChannelKey, Group, place};
use super::operation::Operation;
use super::rendezvous::{Departed, Rendezvous};
use super::shaping::LinkStates;
use crate::memory::TrackedBuffer;
use crate::sync::{AtomicBool, Mutex, Ordering, PoisonError};

/// What ranks share that are threads of one process.
#[derive(Clone, Debug)]
pub struct Threads(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    timeout: Duration,
    /// What each rank computes on.
    devices: Vec<Arc<dyn Device>>,
    stopped: AtomicBool,
    /// `[rank]`: it has its communicator.
    taken: Vec<AtomicBool>,
    /// `[rank]`: it takes part in nothing any more.
    left: Vec<AtomicBool>,
    rendezvous: Mutex<BTreeMap<ChannelKey, Arc<Rendezvous>>>,
    /// The links that are emulated, if any.
    links: Option<LinkStates>,
}

impl Threads {
    /// For as many ranks as there are handles, all of the same device. No wait lasts longer than `timeout`; links are emulated if any are
    /// given.
    pub fn on(devices: Vec<Arc<dyn Device>>, timeout: Duration, links: Option<Links>) -> Self {
        let [taken, left] = [(); 2].map(|()| devices.iter().map(|_| AtomicBool::new(false)).collect());
        let (stopped, rendezvous) = (AtomicBool::new(false), Mutex::default());
        let links = links.map(LinkStates::new);
        Self(Arc::new(Shared { timeout, devices, stopped, taken, left, rendezvous, links }))
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.0.devices.len()
    }

    /// The communicator of one rank; each rank has exactly one.
    ///
    /// # Errors
    /// [`CommError::Device`] where its device gives it no queue, [`CommError::Taken`] where it has one.
    pub fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        let queue = self.0.devices[rank].queue()?;
        if self.0.taken[rank].swap(true, Ordering::AcqRel) {
            return Err(CommError::Taken { rank });
        }
        Ok(Box::new(ThreadCommunicator { shared: Arc::clone(&self.0), rank, queue, used: HashMap::new() }))
    }

    /// A rank failed: ends every wait with [`CommError::Interrupted`] and refuses every start with
    /// [`CommError::Stopped`]. What has been exchanged can still be collected, at once where a link would delay it.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.wake();
    }

    /// These ranks take part in nothing any more: ends every wait for an operation that one of them has not joined with
    /// [`CommError::Interrupted`], and no other.
    pub fn leave(&self, ranks: Range<usize>) {
        self.0.left[ranks].iter().for_each(|left| left.store(true, Ordering::Release));
        self.0.wake();
    }

    /// Whether ranks may still start something.
    ///
    /// # Errors
    /// [`CommError::Stopped`] after a stop.
    pub fn check(&self) -> Result<(), CommError> {
        self.0.check()
    }
}

impl Shared {
    fn check(&self) -> Result<(), CommError> {
        if self.stopped.load(Ordering::Acquire) { Err(CommError::Stopped) } else { Ok(()) }
    }

    /// Has every waiting rank look again at who has stopped or left.
    fn wake(&self) {
        // A rendezvous that is made after this loop is made by a rank that sees the flags.
        let rendezvous = self.rendezvous.lock().unwrap_or_else(PoisonError::into_inner);
        rendezvous.values().for_each(|one| one.wake());
    }

    fn rendezvous(&self, key: &ChannelKey) -> Result<Arc<Rendezvous>, CommError> {
        let mut rendezvous = self.rendezvous.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = rendezvous.get(key) {
            return Ok(Arc::clone(found));
        }
        let link = self.links.as_ref().and_then(|links| links.link(key));
        let lane = self.devices[key.0[0]].queue()?;
        let new = Arc::new(Rendezvous::new(key.0.clone(), link, lane));
        rendezvous.insert(key.clone(), Arc::clone(&new));
        Ok(new)
    }
}

/// One rank's communicator.
#[derive(Debug)]
struct ThreadCommunicator {
    shared: Arc<Shared>,
    rank: usize,
    /// Where the rank computes.
    queue: Arc<dyn Queue>,
    /// The rendezvous of each channel that this rank has used, and the number of its next round there.
    used: HashMap<ChannelKey, (Arc<Rendezvous>, u64)>,
}

impl ThreadCommunicator {
    fn join(
        &mut self,
        members: &[usize],
        channel: Channel,
        operation: Operation,
        payload: Payload,
    ) -> Result<ThreadPending, CommError> {
        self.shared.check()?;
        let position = place(members, self.rank, self.world_size())?;
        let key = (members.to_vec(), channel);
        let (rendezvous, next) = match self.used.entry(key) {
            Entry::Occupied(used) => used.into_mut(),
            Entry::Vacant(new) => {
                let rendezvous = self.shared.rendezvous(new.key())?;
                new.insert((rendezvous, 0))
            }
        };
        let round = *next;
        *next += 1;
        // Words lie in the host's memory: no queue has to do with them.
        let ready = match payload {
            Payload::Elements(_) => self.queue.record(),
            Payload::Words(_) => Event::REACHED,
        };
        rendezvous.join(round, position, operation, payload, ready)?;
        Ok(ThreadPending {
            shared: Arc::clone(&self.shared),
            rendezvous: Arc::clone(rendezvous),
            queue: Arc::clone(&self.queue),
            round,
            position,
        })
    }
}

impl Communicator for ThreadCommunicator {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.shared.devices.len()
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
        finish(&*self.queue, self.shared.timeout, self.world_size(), || self.shared.check())
    }

    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError> {
        let operation = Operation::AddWords { num_words: words.len() };
        let payload = Payload::Words(words.to_vec());
        match self.join(group.ranks(), Channel::Words, operation, payload)?.collect()? {
            Payload::Words(sums) => words.copy_from_slice(&sums),
            Payload::Elements(_) => unreachable!("words went in, words come out"),
        }
        Ok(())
    }
}

/// A started operation of the threads backend.
#[derive(Debug)]
#[must_use = "an operation completes only when it is waited for"]
struct ThreadPending {
    shared: Arc<Shared>,
    rendezvous: Arc<Rendezvous>,
    queue: Arc<dyn Queue>,
    round: u64,
    position: usize,
}

impl ThreadPending {
    fn collect(self) -> Result<Payload, CommError> {
        let shared = &self.shared;
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let departed = Departed {
            is_stopped: &|| is_set(&shared.stopped),
            has_left: &|rank: usize| is_set(&shared.left[rank]),
        };
        self.rendezvous.collect(self.round, self.position, &*self.queue, shared.timeout, departed)
    }
}

impl Drop for ThreadPending {
    /// With or without a wait before it: a round that no member needs any more is removed.
    fn drop(&mut self) {
        self.rendezvous.leave(self.round, self.position);
    }
}

impl Pending for ThreadPending {
    fn wait(self: Box<Self>) -> Result<TrackedBuffer, CommError> {
        match self.collect()? {
            Payload::Elements(buffer) => Ok(buffer),
            Payload::Words(_) => unreachable!("elements went in, elements come out"),
        }
    }
}
