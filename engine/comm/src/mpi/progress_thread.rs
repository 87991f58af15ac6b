//! The progress thread: the one thread of a process that calls MPI. It carries out what the process's ranks ask for.
//!
//! It lives from the first world of the process until the process ends, because MPI can be started only once. While nothing makes progress,
//! it sleeps between polls, first briefly and then longer, so that it takes little time of a core that ranks compute on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use super::announcement::{self, Announcement, Identity};
use super::departed::{Departed, Worlds};
use super::in_flight::InFlight;
use super::order::Order;
use super::reduction::Stagings;
use super::reports::Reports;
use super::wire::{Message, MpiError, Wire, at_exit};
use crate::error::CommError;

/// The tag of announcements; data has others.
const ANNOUNCEMENT_TAG: u16 = 0;
/// Tags of data are below: MPI has at least so many.
const NUM_TAGS: u16 = 32_000;
/// The tag of reports.
const REPORT_TAG: u16 = NUM_TAGS;
/// After some progress: how long the thread polls without sleeping, and then how long it sleeps between polls.
const POLLS_WITHOUT_SLEEP: Duration = Duration::from_micros(50);
const SLEEP_MIN: Duration = Duration::from_micros(100);
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// How long it sleeps at most while no operation is in flight.
const SLEEP_IDLE: Duration = Duration::from_millis(100);
/// How long to wait for what ranks sent before they stopped or left: announcements; data, after a stop; data of a rank that has left.
const TIME_OF_ANNOUNCEMENTS: Duration = Duration::from_millis(200);
const TIME_OF_DATA_AFTER_STOP: Duration = Duration::from_millis(300);
const TIME_OF_DATA: Duration = Duration::from_secs(2);
/// Time between two checks for departed peers.
const BETWEEN_DEPARTURE_CHECKS: Duration = Duration::from_millis(1);
/// How long to wait for the last messages when the process ends.
const TIME_OF_LAST_MESSAGES: Duration = Duration::from_secs(1);
/// How long MPI may take to start: all processes of the job wait for each other.
const TIME_TO_START: Duration = Duration::from_secs(60);
/// How long a process that ends waits for MPI to end.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// A request to the progress thread.
enum Asked {
    /// To carry out a rank's part of an operation.
    Carry(Order),
    /// To check for peers that leave the world of this number; `None` once that world has ended.
    Watch(u64, Option<Departed>),
    /// To meet all processes for a new world, in this time; each gets the bytes of rank 0's.
    Meet { bytes: Vec<u8>, time: Duration, answer: Sender<Result<Vec<u8>, MpiError>> },
    /// To send the report of this process's ranks to others of the world of this number.
    Report { world: u64, report: Vec<u8>, others: Vec<usize> },
    /// To end MPI.
    End(Sender<()>),
}

/// Handle of the progress thread.
pub(super) struct ProgressThread {
    asked: Sender<Asked>,
    rank: usize,
    size: usize,
    num_worlds: AtomicU64,
}

static PROGRESS_THREAD: OnceLock<ProgressThread> = OnceLock::new();

impl ProgressThread {
    /// The progress thread of this process. The first call starts it.
    ///
    /// # Errors
    /// When MPI cannot be started.
    pub(super) fn of_process() -> Result<&'static Self, MpiError> {
        static STARTING: Mutex<()> = Mutex::new(());
        let _only_one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(progress_thread) = PROGRESS_THREAD.get() {
            return Ok(progress_thread);
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
        let opened = is_open.recv_timeout(TIME_TO_START);
        let (rank, size) = opened.map_err(|why| MpiError::without_answer(why, TIME_TO_START))??;
        let progress_thread =
            PROGRESS_THREAD.get_or_init(|| Self { asked, rank, size, num_worlds: AtomicU64::new(0) });
        at_exit(end);
        Ok(progress_thread)
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

    /// Has the progress thread carry out an order.
    pub(super) fn carry(&self, order: Order) -> Result<(), CommError> {
        self.asked.send(Asked::Carry(order)).map_err(|_| CommError::Stopped)
    }

    /// Has the progress thread check for peers that leave a world.
    pub(super) fn watch(&self, world: u64, departed: Option<Departed>) {
        let _ = self.asked.send(Asked::Watch(world, departed));
    }

    /// Meets all processes for a new world, in this time. Every process gets the bytes of rank 0's, and gives as many.
    pub(super) fn meet(&self, bytes: Vec<u8>, time: Duration) -> Result<Vec<u8>, MpiError> {
        let (answer, answered) = bounded(1);
        let _ = self.asked.send(Asked::Meet { bytes, time, answer });
        answered.recv().unwrap_or(Err(MpiError::Ended))
    }

    /// Sends the report of this process's ranks to others of the world of this number.
    pub(super) fn report(&self, world: u64, report: Vec<u8>, others: Vec<usize>) {
        let _ = self.asked.send(Asked::Report { world, report, others });
    }
}

/// Ends MPI when the process does. Where ranks have failed, others may never end it: then it is left to the launcher.
extern "C" fn end() {
    let Some(progress_thread) = PROGRESS_THREAD.get() else { return };
    let (ended, has_ended) = bounded(1);
    if progress_thread.asked.send(Asked::End(ended)).is_ok() {
        let _ = has_ended.recv_timeout(TIME_TO_END);
    }
}

/// The state of the thread.
struct Thread {
    wire: Wire,
    asked: Receiver<Asked>,
    worlds: Worlds,
    checked_departures: Instant,
    /// Whether ranks have stopped in a world since the last world was made: then MPI cannot be finalized. It can be if only single
    /// operations have failed, although their messages may never be done: all processes must decide alike, and MPI ends the messages.
    has_failed: bool,
    /// What a call of MPI said that failed; none is made any more.
    broken: Option<MpiError>,
    in_flight: Vec<InFlight>,
    /// What members have announced of operations that this process has not started.
    announced: BTreeMap<Identity, Vec<(usize, Announcement)>>,
    hearing: Hearing,
    /// Announcements on their way, each with its memory.
    telling: VecDeque<(Message, Box<[u8; announcement::NUM_BYTES]>)>,
    /// `[rank]`: the next tag of data for it.
    tags: Vec<u16>,
    stagings: Stagings,
    reports: Reports,
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
            worlds: Worlds::default(),
            checked_departures: Instant::now(),
            has_failed: false,
            broken: None,
            in_flight: Vec::new(),
            announced: BTreeMap::new(),
            hearing: Hearing { bytes: Box::new([0; announcement::NUM_BYTES]), message: None },
            telling: VecDeque::new(),
            tags,
            stagings: Stagings::default(),
            reports: Reports::new(REPORT_TAG),
        }
    }

    fn run(mut self) {
        let mut moved = Instant::now();
        let mut sleep = SLEEP_MIN;
        loop {
            match self.look() {
                Ok(Some(ended)) => return self.end(&ended),
                Ok(None) => (moved, sleep) = (Instant::now(), SLEEP_MIN),
                Err(Idle) if self.is_busy() && moved.elapsed() < POLLS_WITHOUT_SLEEP => thread::yield_now(),
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

    /// Whether anything is in flight that others wait for.
    fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || !self.telling.is_empty()
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
        if self.broken.is_none() {
            match self.advance() {
                Ok(has_advanced) => has_moved |= has_advanced,
                Err(error) => self.fail_all(error),
            }
        }
        self.check_departures();
        if has_moved { Ok(None) } else { Err(Idle) }
    }

    fn do_as(&mut self, asked: Asked) -> Option<Sender<()>> {
        match asked {
            Asked::Carry(order) => {
                if let Err(error) = self.begin(order) {
                    self.fail_all(error);
                }
            }
            Asked::Watch(world, None) => {
                if let Some(departed) = self.worlds.remove(world) {
                    self.has_failed |= (departed.is_stopped)();
                    // Nobody waits any more for operations that its ranks have left.
                    let is_left = |in_flight: &mut InFlight| in_flight.order().world == world;
                    let lost = self.in_flight.extract_if(.., is_left).collect();
                    Self::interrupt(lost);
                }
            }
            Asked::Watch(world, Some(departed)) => {
                // It has found all its processes.
                self.has_failed = false;
                self.worlds.add(world, departed);
            }
            Asked::Meet { bytes, time, answer } => {
                let _ = answer.send(self.meet(bytes, time));
            }
            Asked::Report { world, report, others } => {
                self.has_failed = true;
                if self.broken.is_none()
                    && let Err(error) = self.reports.send(&self.wire, (world, &report), &others)
                {
                    self.fail_all(error);
                }
            }
            Asked::End(ended) => return Some(ended),
        }
        None
    }

    /// Waits for all processes, and forgets what is left of the worlds before.
    #[expect(unsafe_code, reason = "MPI writes the bytes until the message is done")]
    fn meet(&mut self, bytes: Vec<u8>, time: Duration) -> Result<Vec<u8>, MpiError> {
        let start = Instant::now();
        let bytes = Box::leak(bytes.into_boxed_slice());
        // SAFETY: the bytes are never freed, and read after the message is done.
        let broadcast = unsafe { self.wire.broadcast(bytes) }?;
        self.wait_for_all(broadcast, start, time)?;
        let all_are_here = self.wire.barrier()?;
        self.wait_for_all(all_are_here, start, time)?;
        let (all_have_it, renewed) = self.wire.renew()?;
        self.wait_for_all(all_have_it, start, time)?;
        let lost = std::mem::take(&mut self.in_flight);
        Self::interrupt(lost);
        // What was interrupted may still have some.
        self.stagings = Stagings::default();
        self.announced.clear();
        if let Some(message) = self.hearing.message.take() {
            self.wire.cancel(message);
        }
        self.reports.cancel(&self.wire);
        self.wire.take(renewed);
        Ok(bytes.to_vec())
    }

    /// Waits for a message that is done once all processes have come as far. What ranks have begun in the world before still reaches the others
    /// meanwhile.
    fn wait_for_all(&mut self, mut message: Message, start: Instant, time: Duration) -> Result<(), MpiError> {
        while self.wire.done(&mut message)?.is_none() {
            let waited = start.elapsed();
            let is_late = || (waited > time).then_some(MpiError::Missing { waited });
            if let Some(error) = self.worlds.why_not_all_meet().or_else(is_late) {
                self.has_failed = true;
                return Err(error);
            }
            if !self.advance()? {
                thread::sleep(SLEEP_MIN);
            }
        }
        Ok(())
    }

    fn begin(&mut self, order: Order) -> Result<(), MpiError> {
        if let Some(error) = &self.broken {
            order.outcome.give(Err(CommError::Device { reason: error.to_string() }));
            return Ok(());
        }
        if self.worlds.stopped_for(order.world).is_some() {
            order.outcome.give(Err(CommError::Stopped));
            return Ok(());
        }
        let mut tags_to = vec![0; order.members.len()];
        for (position, rank) in order.members.iter().map(|member| order.first + member).enumerate() {
            if position != order.position {
                let tag = self.tags[rank];
                self.tags[rank] = if tag + 1 < NUM_TAGS { tag + 1 } else { ANNOUNCEMENT_TAG + 1 };
                tags_to[position] = tag;
                let (identity, operation) = (order.identity, order.operation.clone());
                if let Err(error) = self.tell(rank, &Announcement { identity, operation, tag }) {
                    order.outcome.give(Err(CommError::Device { reason: error.to_string() }));
                    return Err(error);
                }
            }
        }
        let identity = order.identity;
        let mut in_flight = InFlight::begin(order, tags_to);
        for (rank, announcement) in self.announced.remove(&identity).unwrap_or_default() {
            if let Err(error) = in_flight.hear(rank, &announcement) {
                in_flight.fail(error);
                return Ok(());
            }
        }
        self.in_flight.push(in_flight);
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
        while let Some((rank, world, report)) = self.reports.hear(&self.wire)? {
            self.worlds.take_report(world, rank, report);
        }
        while let Some((first, _)) = self.telling.front_mut()
            && self.wire.done(first)?.is_some()
        {
            self.telling.pop_front();
        }
        let mut index = 0;
        while index < self.in_flight.len() {
            has_moved |= self.in_flight[index].advance(&self.wire, &mut self.stagings)?;
            if self.in_flight[index].is_done() {
                self.in_flight.remove(index).finish();
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
        let Some(index) = self.in_flight.iter().position(|in_flight| in_flight.order().identity == identity)
        else {
            self.announced.entry(identity).or_default().push((rank, announcement));
            return;
        };
        if let Err(error) = self.in_flight[index].hear(rank, &announcement) {
            self.in_flight.remove(index).fail(error);
        }
    }

    /// Ends operations that can never complete, because members have left or stopped.
    fn check_departures(&mut self) {
        if self.checked_departures.elapsed() < BETWEEN_DEPARTURE_CHECKS {
            return;
        }
        self.checked_departures = Instant::now();
        self.has_failed |= self.worlds.note_stops();
        let worlds = &self.worlds;
        let cannot_end = |in_flight: &mut InFlight| {
            let is_open = !in_flight.order().outcome.missing().is_empty();
            let limit = if is_open { TIME_OF_ANNOUNCEMENTS } else { TIME_OF_DATA_AFTER_STOP };
            let world = in_flight.order().world;
            let left =
                in_flight.left_for(|rank| worlds.has_left(world, rank)).is_some_and(|(time, is_missing)| {
                    time > if is_missing { TIME_OF_ANNOUNCEMENTS } else { TIME_OF_DATA }
                });
            left || worlds.stopped_for(world).is_some_and(|time| time > limit)
        };
        let lost = self.in_flight.extract_if(.., cannot_end).collect();
        Self::interrupt(lost);
    }

    /// A call of MPI has failed: no other is made.
    fn fail_all(&mut self, error: MpiError) {
        tracing::error!(%error, "MPI does not work any more");
        for in_flight in std::mem::take(&mut self.in_flight) {
            in_flight.fail(CommError::Device { reason: error.to_string() });
        }
        self.broken = Some(error);
    }

    fn interrupt(lost: Vec<InFlight>) {
        for in_flight in lost {
            let operation = in_flight.order().operation.to_string();
            let missing = in_flight.order().outcome.missing();
            in_flight.fail(CommError::Interrupted { operation, missing });
        }
    }

    fn end(mut self, ended: &Sender<()>) {
        let is_in_order = !self.has_failed && self.broken.is_none();
        if is_in_order && self.last_messages_are_done() {
            if let Some(message) = self.hearing.message.take() {
                self.wire.cancel(message);
            }
            self.reports.cancel(&self.wire);
            drop(self);
        } else {
            std::mem::forget(self);
        }
        let _ = ended.send(());
    }

    fn last_messages_are_done(&mut self) -> bool {
        let start = Instant::now();
        while !self.telling.is_empty() || !self.in_flight.iter().all(InFlight::has_no_open_messages) {
            if start.elapsed() > TIME_OF_LAST_MESSAGES || self.advance().is_err() {
                return false;
            }
            thread::yield_now();
        }
        true
    }
}

/// Nothing moves.
struct Idle;
