//! The one thread of a process that calls MPI, and carries out what the process's ranks ask for.
//!
//! It lives from the first world of the process to its end, because MPI can be started once. While nothing moves it sleeps between two looks, first
//! briefly and then longer, so that it takes little of a core that ranks compute on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::announcement::{self, Announcement, Identity};
use super::carried::Carried;
use super::order::Order;
use super::reduction::Stagings;
use super::wire::{Message, MpiError, Wire, at_exit};
use crate::run::comm::error::CommError;

/// The tag of announcements; data has others.
const ANNOUNCEMENT_TAG: u16 = 0;
/// Tags of data are below: MPI has at least so many.
const NUM_TAGS: u16 = 32_000;
/// After something moved: how long the thread looks again at once, and then how long it sleeps between two looks.
const LOOKS_AT_ONCE: Duration = Duration::from_micros(50);
const SLEEP_MIN: Duration = Duration::from_micros(100);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// How long it sleeps at most while no operation is under way.
const SLEEP_IDLE: Duration = Duration::from_millis(100);
/// After a stop: how long an operation that all members have joined may take to end, and one that they have not.
const TIME_AFTER_STOP: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(50)];
/// How long a process that ends waits for MPI to end.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// Who takes part no more in the world that is now.
pub(super) struct Gone {
    /// Whether all have stopped.
    pub(super) is_stopped: Box<dyn Fn() -> bool + Send>,
    /// Whether a rank has left.
    pub(super) has_left: Box<dyn Fn(usize) -> bool + Send>,
}

/// What the courier is asked for.
enum Asked {
    /// To carry out a rank's part of an operation.
    Carry(Order),
    /// To look at who is gone; `None` where no world is any more.
    Watch(Option<Gone>),
    /// To give every process the bytes of rank 0's.
    Broadcast(Vec<u8>, Sender<Result<Vec<u8>, MpiError>>),
    /// To end MPI.
    End(Sender<()>),
}

/// The way to the courier.
pub(super) struct Courier {
    asked: Sender<Asked>,
    rank: usize,
    size: usize,
    num_worlds: AtomicU64,
}

static COURIER: OnceLock<Courier> = OnceLock::new();

impl Courier {
    /// The courier of this process, which is started if there is none yet.
    ///
    /// # Errors
    /// When MPI cannot be started.
    pub(super) fn of_process() -> Result<&'static Self, MpiError> {
        static STARTING: Mutex<()> = Mutex::new(());
        let _only_one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(courier) = COURIER.get() {
            return Ok(courier);
        }
        let (asked, orders) = unbounded();
        let (opened, is_open) = bounded(1);
        let body = move || match Wire::open() {
            Ok(wire) => {
                let _ = opened.send(Ok((wire.rank(), wire.size())));
                Thread::new(wire, orders).run();
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        let spawned = thread::Builder::new().name("mpi".to_owned()).spawn(body);
        spawned.map_err(|error| MpiError::NoThread(error.to_string()))?;
        let (rank, size) = is_open.recv().unwrap_or(Err(MpiError::StartedBefore))?;
        let courier = COURIER.get_or_init(|| Self { asked, rank, size, num_worlds: AtomicU64::new(0) });
        at_exit(end);
        Ok(courier)
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The number of a new world.
    pub(super) fn next_world(&self) -> u64 {
        self.num_worlds.fetch_add(1, Ordering::Relaxed)
    }

    /// Has an order carried out.
    pub(super) fn carry(&self, order: Order) -> Result<(), CommError> {
        self.asked.send(Asked::Carry(order)).map_err(|_| CommError::Stopped)
    }

    /// Has the courier look at who is gone.
    pub(super) fn watch(&self, gone: Option<Gone>) {
        let _ = self.asked.send(Asked::Watch(gone));
    }

    /// Every process gets the bytes of rank 0's, and gives as many.
    pub(super) fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, MpiError> {
        let (answer, answered) = bounded(1);
        let _ = self.asked.send(Asked::Broadcast(bytes, answer));
        answered.recv().unwrap_or(Err(MpiError::StartedBefore))
    }
}

/// Ends MPI when the process does. Where ranks have failed, others may never end it: then it is left to the launcher.
extern "C" fn end() {
    let Some(courier) = COURIER.get() else { return };
    let (ended, has_ended) = bounded(1);
    if courier.asked.send(Asked::End(ended)).is_ok() {
        let _ = has_ended.recv_timeout(TIME_TO_END);
    }
}

/// What the thread has.
struct Thread {
    wire: Wire,
    asked: Receiver<Asked>,
    gone: Option<Gone>,
    /// Since when all have stopped.
    stopped: Option<Instant>,
    /// Whether ranks have stopped in any world: then MPI cannot be ended in order.
    has_failed: bool,
    carried: Vec<Carried>,
    /// What members have announced of operations that this process has not started.
    announced: BTreeMap<Identity, Vec<(usize, Announcement)>>,
    hearing: Hearing,
    /// Announcements on their way, each with its memory.
    telling: VecDeque<(Message, Box<[u8; announcement::NUM_BYTES]>)>,
    /// `[rank]`: the next tag of data for it.
    tags: Vec<u16>,
    stagings: Stagings,
}

/// Where the next announcement arrives.
struct Hearing {
    bytes: Box<[u8; announcement::NUM_BYTES]>,
    message: Option<Message>,
}

impl Thread {
    fn new(wire: Wire, asked: Receiver<Asked>) -> Self {
        let tags = vec![ANNOUNCEMENT_TAG + 1; wire.size()];
        Self {
            wire,
            asked,
            gone: None,
            stopped: None,
            has_failed: false,
            carried: Vec::new(),
            announced: BTreeMap::new(),
            hearing: Hearing { bytes: Box::new([0; announcement::NUM_BYTES]), message: None },
            telling: VecDeque::new(),
            tags,
            stagings: Stagings::default(),
        }
    }

    fn run(mut self) {
        let mut moved = Instant::now();
        let mut sleep = SLEEP_MIN;
        loop {
            match self.look() {
                Ok(Some(ended)) => return self.end(&ended),
                Ok(None) => (moved, sleep) = (Instant::now(), SLEEP_MIN),
                Err(Idle) if self.is_busy() && moved.elapsed() < LOOKS_AT_ONCE => thread::yield_now(),
                Err(Idle) => {
                    let time = if self.is_busy() { sleep } else { SLEEP_IDLE };
                    sleep = (sleep * 2).min(SLEEP_MAX);
                    match self.asked.recv_timeout(time) {
                        Ok(asked) => {
                            if let Some(ended) = self.do_as(asked) {
                                return self.end(&ended);
                            }
                            (moved, sleep) = (Instant::now(), SLEEP_MIN);
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        }
    }

    /// Whether something is under way that others wait for.
    fn is_busy(&self) -> bool {
        !self.carried.is_empty() || !self.telling.is_empty()
    }

    /// Does all that can be done without waiting; who waits for the end, if it is asked for.
    fn look(&mut self) -> Result<Option<Sender<()>>, Idle> {
        let mut has_moved = false;
        while let Ok(asked) = self.asked.try_recv() {
            if let Some(ended) = self.do_as(asked) {
                return Ok(Some(ended));
            }
            has_moved = true;
        }
        match self.advance() {
            Ok(has_advanced) => has_moved |= has_advanced,
            Err(error) => self.fail_all(&error),
        }
        self.look_who_is_gone();
        if has_moved { Ok(None) } else { Err(Idle) }
    }

    fn do_as(&mut self, asked: Asked) -> Option<Sender<()>> {
        match asked {
            Asked::Carry(order) => {
                if let Err(error) = self.begin(order) {
                    self.fail_all(&error);
                }
            }
            Asked::Watch(gone) => {
                // A new world has found all its processes.
                self.has_failed &= gone.is_none();
                self.gone = gone;
                self.stopped = None;
            }
            Asked::Broadcast(mut bytes, answer) => {
                let broadcast = self.wire.broadcast(&mut bytes);
                let _ = answer.send(broadcast.map(|()| bytes));
            }
            Asked::End(ended) => return Some(ended),
        }
        None
    }

    fn begin(&mut self, order: Order) -> Result<(), MpiError> {
        if self.stopped.is_some() {
            order.outcome.give(Err(CommError::Stopped));
            return Ok(());
        }
        let mut tags_to = vec![0; order.members.len()];
        for (position, &rank) in order.members.iter().enumerate() {
            if position != order.position {
                let tag = self.tags[rank];
                self.tags[rank] = if tag + 1 < NUM_TAGS { tag + 1 } else { ANNOUNCEMENT_TAG + 1 };
                tags_to[position] = tag;
                let (identity, operation) = (order.identity, order.operation.clone());
                self.tell(rank, &Announcement { identity, operation, tag })?;
            }
        }
        let identity = order.identity;
        let Some(mut carried) = Carried::begin(order, tags_to, &mut self.stagings) else { return Ok(()) };
        for (rank, announcement) in self.announced.remove(&identity).unwrap_or_default() {
            if let Err(error) = carried.hear(rank, &announcement) {
                carried.fail(error);
                return Ok(());
            }
        }
        self.carried.push(carried);
        Ok(())
    }

    #[expect(unsafe_code, reason = "MPI reads the announcement until its message is done")]
    fn tell(&mut self, rank: usize, announcement: &Announcement) -> Result<(), MpiError> {
        let bytes = Box::new(announcement.to_bytes());
        // SAFETY: the box keeps its bytes where they are, and is dropped after the message is done.
        let message = unsafe { self.wire.send(rank, ANNOUNCEMENT_TAG, &*bytes) }?;
        self.telling.push_back((message, bytes));
        Ok(())
    }

    fn advance(&mut self) -> Result<bool, MpiError> {
        let mut has_moved = self.hear()?;
        while let Some((first, _)) = self.telling.front_mut()
            && self.wire.done(first)?.is_some()
        {
            self.telling.pop_front();
        }
        let mut index = 0;
        while index < self.carried.len() {
            has_moved |= self.carried[index].advance(&self.wire, &mut self.stagings)?;
            if self.carried[index].is_done() {
                self.carried.remove(index).finish();
                has_moved = true;
            } else {
                index += 1;
            }
        }
        Ok(has_moved)
    }

    /// Takes note of what others announce.
    #[expect(unsafe_code, reason = "MPI writes the announcement until its message is done")]
    fn hear(&mut self) -> Result<bool, MpiError> {
        let mut has_moved = false;
        loop {
            if let Some(message) = &mut self.hearing.message {
                let Some(rank) = self.wire.done(message)? else { return Ok(has_moved) };
                self.hearing.message = None;
                has_moved = true;
                if let Some(announcement) = Announcement::from_bytes(&self.hearing.bytes) {
                    self.note(rank, announcement);
                }
            }
            let bytes = &mut self.hearing.bytes[..];
            // SAFETY: the box keeps its bytes where they are, and is read after the message is done.
            let message = unsafe { self.wire.receive(None, ANNOUNCEMENT_TAG, bytes) }?;
            self.hearing.message = Some(message);
        }
    }

    fn note(&mut self, rank: usize, announcement: Announcement) {
        let identity = announcement.identity;
        let Some(index) = self.carried.iter().position(|carried| carried.order().identity == identity) else {
            self.announced.entry(identity).or_default().push((rank, announcement));
            return;
        };
        if let Err(error) = self.carried[index].hear(rank, &announcement) {
            self.carried.remove(index).fail(error);
        }
    }

    /// Ends operations that cannot end by themselves any more.
    fn look_who_is_gone(&mut self) {
        let Some(Gone { is_stopped, has_left }) = &self.gone else { return };
        if self.stopped.is_none() && is_stopped() {
            (self.stopped, self.has_failed) = (Some(Instant::now()), true);
        }
        let time = self.stopped.map(|since| since.elapsed());
        let cannot_end = |carried: &Carried| {
            let missing = carried.order().outcome.missing();
            let limit = TIME_AFTER_STOP[usize::from(!missing.is_empty())];
            time.is_some_and(|time| time > limit) || missing.iter().any(|&rank| has_left(rank))
        };
        let (lost, carried) = std::mem::take(&mut self.carried).into_iter().partition(cannot_end);
        self.carried = carried;
        self.interrupt(lost);
    }

    fn fail_all(&mut self, error: &MpiError) {
        tracing::error!(%error, "MPI does not work any more");
        self.has_failed = true;
        self.stopped.get_or_insert_with(Instant::now);
        let lost = std::mem::take(&mut self.carried);
        self.interrupt(lost);
    }

    fn interrupt(&mut self, lost: Vec<Carried>) {
        for carried in lost {
            let operation = carried.order().operation.to_string();
            let missing = carried.order().outcome.missing();
            carried.fail(CommError::Interrupted { operation, missing });
        }
    }

    fn end(mut self, ended: &Sender<()>) {
        if self.has_failed || !self.telling.is_empty() || !self.carried.iter().all(Carried::is_quiet) {
            std::mem::forget(self);
        } else {
            if let Some(message) = self.hearing.message.take() {
                self.wire.cancel(message);
            }
            drop(self);
        }
        let _ = ended.send(());
    }
}

/// Nothing moves.
struct Idle;
