//! A process's end of the side channel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use pipezero_models::Host;

use super::super::{ClockOffset, Positions};
use super::error::SideChannelError;
use super::frame::{self, Exchange, FromHub, Hello, ToHub};
use super::server::{Clock, Server};
use crate::run::comm::CommError;

/// How often a process says where its ranks are.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(200);
/// How long a process waits until it tries again to connect with one that does not listen yet.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Member {
    /// The program and its version: the same in all processes.
    pub program: String,
    /// Ranks in all processes.
    pub world_size: usize,
    /// The ranks of this process.
    pub ranks: Range<usize>,
    /// No wait is longer.
    pub timeout: Duration,
    /// But for the one until all ranks are there.
    pub start_timeout: Duration,
}

/// A process's end of the side channel.
#[derive(Debug)]
pub struct SideChannel {
    shared: Arc<Shared>,
    /// In the process of rank 0.
    server: Option<Server>,
    /// Dropped with the channel, which the thread sees that says where ranks are.
    _alive: Sender<()>,
}

#[derive(Debug)]
struct Shared {
    member: Member,
    positions: Arc<Positions>,
    to_hub: Mutex<TcpStream>,
    known: Mutex<Known>,
    changed: Condvar,
}

/// What the hub has said.
#[derive(Debug, Default)]
struct Known {
    /// The ranks of each process, once all are there.
    processes: Option<Vec<Range<usize>>>,
    refused: Option<String>,
    /// Exchanges that this process has begun.
    num_begun: u64,
    /// What exchanges give, by number, or the first rank of a process that has ended or stopped without its part.
    taken: BTreeMap<u64, Result<Vec<Vec<u8>>, usize>>,
    mismatch: Option<(usize, Exchange, Exchange)>,
    time_ns: Option<u64>,
    is_stopped: bool,
    /// By this process itself: then it gives and waits no more. If another has, what that one gave before still reaches this one, and the hub
    /// says of each exchange whether it is whole.
    has_stopped: bool,
    /// By the first rank of a process.
    reports: BTreeMap<usize, Vec<u8>>,
    /// First ranks of processes that have ended.
    ended: BTreeSet<usize>,
    /// The connection is gone.
    is_cut: bool,
}

impl SideChannel {
    /// Listens for the other processes, in that of rank 0.
    ///
    /// # Errors
    /// When the address is of no interface of this host, or its port is taken.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, SideChannelError> {
        TcpListener::bind(address).map_err(|source| SideChannelError::Listen { address, source })
    }

    /// The end of the process of rank 0, which others find where `listener` listens. Their clocks are compared with this one. Returns once all
    /// ranks are there.
    ///
    /// # Errors
    /// When they do not come in time, or do not fit together.
    pub fn host(
        listener: TcpListener,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
        member: Member,
    ) -> Result<Self, SideChannelError> {
        let address = listener.local_addr()?;
        let clock: Clock = Arc::new(clock);
        let Member { program, world_size, start_timeout, .. } = member.clone();
        let server = Server::start(listener, program, world_size, start_timeout, clock)?;
        Self::connect(address, member, Some(server))
    }

    /// The end of another process. Returns once all ranks are there.
    ///
    /// # Errors
    /// As [`SideChannel::host`], and when nobody answers on the address.
    pub fn join(address: SocketAddr, member: Member) -> Result<Self, SideChannelError> {
        Self::connect(address, member, None)
    }

    fn connect(
        address: SocketAddr,
        member: Member,
        server: Option<Server>,
    ) -> Result<Self, SideChannelError> {
        let start = Instant::now();
        let mut stream = connected(address, member.start_timeout)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(member.timeout))?;
        let hello = Hello {
            greeting: Hello::GREETING,
            program: member.program.clone(),
            world_size: member.world_size,
            ranks: member.ranks.clone(),
        };
        frame::write(&mut stream, &hello)?;
        let shared = Arc::new(Shared {
            positions: Arc::new(Positions::new(member.world_size)),
            to_hub: Mutex::new(stream.try_clone()?),
            known: Mutex::default(),
            changed: Condvar::new(),
            member,
        });
        let (alive, is_alive) = unbounded();
        let channel = Self { shared, server, _alive: alive };
        let reader = Arc::clone(&channel.shared);
        spawn("side-channel-from-hub", move || reader.hear(&mut stream))?;
        channel.shared.wait_for_all(start, channel.server.as_ref())?;
        let teller = Arc::clone(&channel.shared);
        spawn("side-channel-positions", move || teller.tell_positions(&is_alive))?;
        Ok(channel)
    }

    /// The ranks of each process, ascending.
    pub fn processes(&self) -> Vec<Range<usize>> {
        self.shared.known().processes.clone().unwrap_or_default()
    }

    /// Where each rank is, as far as this process knows.
    pub fn positions(&self) -> &Arc<Positions> {
        &self.shared.positions
    }

    /// As [`World::add_words`](crate::run::world::World::add_words).
    ///
    /// # Errors
    /// As there.
    pub fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        let own = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let exchange = Exchange::AddWords { num_words: words.len() };
        let sums = self.shared.exchange(exchange, own)?;
        for (word, &sum) in words.iter_mut().zip(sums.concat().as_chunks().0) {
            *word = u64::from_le_bytes(sum);
        }
        Ok(())
    }

    /// As [`World::gather`](crate::run::world::World::gather).
    ///
    /// # Errors
    /// As there.
    pub fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        if self.shared.member.ranks.contains(&0) {
            return self.shared.exchange(Exchange::Gather, message);
        }
        self.shared.give(Exchange::Gather, message)?;
        Ok(Vec::new())
    }

    /// As [`World::broadcast`](crate::run::world::World::broadcast).
    ///
    /// # Errors
    /// As there.
    pub fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        let own = if self.shared.member.ranks.contains(&0) { message } else { Vec::new() };
        Ok(self.shared.exchange(Exchange::Broadcast, own)?.concat())
    }

    /// How far a clock of this process is ahead of that of rank 0's.
    ///
    /// # Errors
    /// As [`World::clock_offset`](crate::run::world::World::clock_offset).
    pub fn clock_offset(&self, clock: impl Fn() -> u64) -> Result<ClockOffset, CommError> {
        if self.shared.member.ranks.contains(&0) {
            return self.shared.check().map(|()| ClockOffset::ZERO);
        }
        let asked_ns = clock();
        self.shared.known().time_ns = None;
        self.shared.send(&ToHub::AskTime, "a question for the time")?;
        let answered_ns = self.shared.wait("a question for the time", |known| known.time_ns.take())?;
        Ok(ClockOffset::of_answer(asked_ns, answered_ns, clock()))
    }

    /// A rank of this process has failed.
    pub fn stop(&self) {
        let mut known = self.shared.known();
        (known.is_stopped, known.has_stopped) = (true, true);
        drop(known);
        self.shared.changed.notify_all();
        // Where the hub is gone, so is the process of rank 0, which every other process notices.
        let _ = self.shared.send(&self.shared.own_positions(), "a stop");
        let _ = self.shared.send(&ToHub::Stop, "a stop");
    }

    /// Whether a rank of any process has failed.
    pub fn is_stopped(&self) -> bool {
        self.shared.known().is_stopped
    }

    /// Whether the process of a rank has ended.
    pub fn has_ended(&self, rank: usize) -> bool {
        let known = self.shared.known();
        let processes = known.processes.as_deref().unwrap_or_default();
        let of_rank = processes.iter().find(|ranks| ranks.contains(&rank));
        of_rank.is_some_and(|ranks| known.has_ended(ranks))
    }

    /// A process has failed, whose first rank this is, and has told this one beside the channel.
    pub fn take_report(&self, first_rank: usize, report: Vec<u8>) {
        let mut known = self.shared.known();
        known.is_stopped = true;
        known.reports.entry(first_rank).or_insert(report);
        drop(known);
        self.shared.changed.notify_all();
    }

    /// As [`World::exchange_failures`](crate::run::world::World::exchange_failures).
    pub fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        if let Err(error) = self.shared.send(&ToHub::Report(report.clone()), "a report") {
            tracing::debug!(%error, "the report goes to the other processes directly, if at all");
        }
        let processes = self.processes();
        let mut known = self.shared.known();
        known.reports.insert(self.shared.member.ranks.start, report);
        let is_open = |known: &mut Known| {
            let is_missing =
                |ranks: &Range<usize>| !known.reports.contains_key(&ranks.start) && !known.has_ended(ranks);
            processes.iter().any(is_missing)
        };
        let waited = self.shared.changed.wait_timeout_while(known, time, is_open);
        let (known, _) = waited.unwrap_or_else(PoisonError::into_inner);
        processes.iter().map(|ranks| (ranks.clone(), known.reports.get(&ranks.start).cloned())).collect()
    }
}

impl Drop for SideChannel {
    fn drop(&mut self) {
        let _ = self.shared.send(&ToHub::End, "the end");
        let stream = self.shared.to_hub.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

impl Known {
    fn has_ended(&self, ranks: &Range<usize>) -> bool {
        self.ended.contains(&ranks.start) || (self.is_cut && ranks.contains(&0))
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<(), CommError> {
        if self.known().is_stopped { Err(CommError::Stopped) } else { Ok(()) }
    }

    /// Takes note of what the hub says, until the connection is gone.
    fn hear(&self, stream: &mut TcpStream) {
        while let Ok(Some(frame)) = frame::read::<FromHub>(stream) {
            self.known().note(frame, &self.member.ranks, &self.positions);
            self.changed.notify_all();
        }
        let mut known = self.known();
        known.is_cut = true;
        // The process of rank 0 has said that it ends, unless something ended it.
        known.is_stopped |= !known.ended.contains(&0);
        drop(known);
        self.changed.notify_all();
    }

    fn send(&self, frame: &ToHub, operation: &str) -> Result<(), CommError> {
        let mut stream = self.to_hub.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = frame::write(&mut *stream, frame);
        sent.map_err(|_| CommError::Interrupted { operation: operation.to_owned(), missing: vec![0] })
    }

    /// Gives this process's part of the next exchange, whose number is returned.
    fn give(&self, exchange: Exchange, message: Vec<u8>) -> Result<u64, CommError> {
        let mut known = self.known();
        if known.has_stopped {
            return Err(CommError::Stopped);
        }
        let number = known.num_begun;
        known.num_begun += 1;
        drop(known);
        self.send(&ToHub::Give { number, exchange, message }, exchange.what())?;
        Ok(number)
    }

    fn exchange(&self, exchange: Exchange, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        let number = self.give(exchange, message)?;
        let taken = self.wait(exchange.what(), |known| known.taken.remove(&number))?;
        taken.map_err(|first_rank| CommError::Interrupted {
            operation: exchange.what().to_owned(),
            missing: self.ranks_beside(first_rank),
        })
    }

    /// Waits for something that the hub says.
    fn wait<T>(
        &self,
        operation: &'static str,
        mut said: impl FnMut(&mut Known) -> Option<T>,
    ) -> Result<T, CommError> {
        let start = Instant::now();
        let mut known = self.known();
        loop {
            if let Some(found) = said(&mut known) {
                return Ok(found);
            }
            if let Some((rank, exchange, expected)) = known.mismatch {
                let [operation, expected] = [exchange, expected].map(|of| of.what().to_owned());
                return Err(CommError::Mismatch { rank, operation, expected });
            }
            let waited = start.elapsed();
            let operation = operation.to_owned();
            let processes = known.processes.as_deref().unwrap_or_default();
            let others = || processes.iter().filter(|&ranks| *ranks != self.member.ranks);
            if known.has_stopped || known.is_cut {
                let ended = others().filter(|ranks| known.has_ended(ranks));
                return Err(CommError::Interrupted {
                    operation,
                    missing: ended.flat_map(Clone::clone).collect(),
                });
            }
            let Some(left) = self.member.timeout.checked_sub(waited) else {
                return Err(CommError::Timeout {
                    waited,
                    operation,
                    missing: others().flat_map(Clone::clone).collect(),
                });
            };
            (known, _) = self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The ranks of the process with this first one.
    fn ranks_beside(&self, first_rank: usize) -> Vec<usize> {
        let known = self.known();
        let processes = known.processes.as_deref().unwrap_or_default();
        processes.iter().find(|ranks| ranks.start == first_rank).cloned().into_iter().flatten().collect()
    }

    fn wait_for_all(&self, start: Instant, server: Option<&Server>) -> Result<(), SideChannelError> {
        let mut known = self.known();
        loop {
            if let Some(reason) = known.refused.take() {
                return Err(SideChannelError::Refused(reason));
            }
            if known.processes.is_some() {
                return Ok(());
            }
            let waited = start.elapsed();
            let missing = || server.map_or_else(Vec::new, Server::missing);
            if known.is_cut {
                let gone = std::io::Error::other("the process of rank 0 has ended");
                return Err(SideChannelError::Io(gone));
            }
            let Some(left) = self.member.start_timeout.checked_sub(waited) else {
                return Err(SideChannelError::Missing { waited, missing: missing() });
            };
            (known, _) = self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn own_positions(&self) -> ToHub {
        ToHub::Positions(self.member.ranks.clone().map(|rank| self.positions.get(rank)).collect())
    }

    /// Until the channel is dropped, or its connection is gone.
    fn tell_positions(&self, is_alive: &Receiver<()>) {
        let mut last = ToHub::AskTime;
        while is_alive.recv_timeout(BETWEEN_POSITIONS) == Err(RecvTimeoutError::Timeout) {
            let now = self.own_positions();
            if now != last && self.send(&now, "positions").is_err() {
                return;
            }
            last = now;
        }
    }
}

impl Known {
    fn note(&mut self, frame: FromHub, own: &Range<usize>, positions: &Positions) {
        match frame {
            FromHub::Begin(processes) => self.processes = Some(processes),
            FromHub::Refuse(reason) => self.refused = Some(reason),
            FromHub::Take { number, messages } => {
                self.taken.insert(number, Ok(messages));
            }
            FromHub::Lost { number, first_rank } => {
                self.taken.insert(number, Err(first_rank));
            }
            FromHub::Mismatch { rank, exchange, expected } => {
                self.mismatch = Some((rank, exchange, expected))
            }
            FromHub::Time(ns) => self.time_ns = Some(ns),
            FromHub::Positions(of_processes) => {
                for (first_rank, of_ranks) in
                    of_processes.into_iter().filter(|(first, _)| *first != own.start)
                {
                    for (rank, position) in (first_rank..).zip(of_ranks) {
                        positions.set(rank, &Host, position);
                    }
                }
            }
            FromHub::Stop => self.is_stopped = true,
            FromHub::Report { first_rank, report } => {
                self.reports.insert(first_rank, report);
            }
            FromHub::Ended(first_rank) => {
                self.ended.insert(first_rank);
            }
        }
    }
}

impl Exchange {
    fn what(self) -> &'static str {
        match self {
            Self::AddWords { .. } => "a sum of words of all processes",
            Self::Gather => "messages to the first process",
            Self::Broadcast => "a message of the first process",
        }
    }
}

fn connected(address: SocketAddr, timeout: Duration) -> Result<TcpStream, SideChannelError> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        let source = match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(source) => source,
        };
        let waited = start.elapsed();
        if waited >= timeout {
            return Err(SideChannelError::Connect { address, waited, source });
        }
        thread::sleep(BETWEEN_TRIES);
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
