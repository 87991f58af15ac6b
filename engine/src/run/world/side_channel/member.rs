//! A process's end of the side channel.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::{ClockOffset, Positions};
use super::connection::{Outgoing, connected};
use super::error::SideChannelError;
use super::frame::{self, Exchange, FromHub, Hello, ToHub};
use super::hall::Clock;
use super::known::Known;
use super::server::Server;
use crate::run::comm::CommError;
use crate::run::sync::{
    Instant, Monitor, Mutex, MutexGuard, PoisonError, Receiver, RecvTimeoutError, Sender, channel, thread,
};

/// How often a process says where its ranks are.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(200);

/// How long the process of the hub waits for the others at its end, after a stop.
const LONGEST_FAREWELL: Duration = Duration::from_millis(400);

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

/// How long processes may take to find each other at least: they start on many hosts.
const START_TIME: Duration = Duration::from_secs(60);

impl Member {
    /// A process with one rank of a world of so many.
    pub(crate) fn of_process(program: String, [rank, world_size]: [usize; 2], timeout: Duration) -> Self {
        Self { program, world_size, ranks: rank..rank + 1, timeout, start_timeout: timeout.max(START_TIME) }
    }

    /// The same, of processes that have found each other before: they have started, and have only to come.
    pub(crate) fn again(self) -> Self {
        Self { start_timeout: self.timeout, ..self }
    }
}

/// A process's end of the side channel.
#[derive(Debug)]
pub struct SideChannel {
    shared: Arc<Shared>,
    /// In the process that has the hub.
    server: Option<Server>,
    /// The address of this host in the connection with the hub.
    local_ip: Option<IpAddr>,
    /// Dropped with the channel, which the thread sees that says where ranks are.
    _alive: Sender<()>,
}

#[derive(Debug)]
struct Shared {
    member: Member,
    positions: Arc<Positions>,
    to_hub: Mutex<Box<dyn Outgoing>>,
    known: Monitor<Known>,
    /// Another channel, which gets the reports that come over this one.
    takes_reports: Mutex<Weak<SideChannel>>,
}

impl SideChannel {
    /// Listens for the other processes, in the one that has the hub.
    ///
    /// # Errors
    /// When the address is of no interface of this host, or its port is taken.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, SideChannelError> {
        TcpListener::bind(address).map_err(|source| SideChannelError::Listen { address, source })
    }

    /// The end of the process that has the hub, which others find where `listener` listens. Their clocks are compared with this one. Returns once all
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
        let stream = connected(address, member.start_timeout)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(member.timeout))?;
        let local_ip = stream.local_addr()?.ip();
        let mut own = Self::over(Box::new(stream.try_clone()?), stream, member, server, start)?;
        own.local_ip = Some(local_ip);
        Ok(own)
    }

    /// The end of a process that is connected with the hub: `start` is when it began to connect.
    pub(super) fn over(
        mut to_hub: Box<dyn Outgoing>,
        mut from_hub: impl Read + Send + 'static,
        member: Member,
        server: Option<Server>,
        start: Instant,
    ) -> Result<Self, SideChannelError> {
        let hello = Hello {
            greeting: Hello::GREETING,
            program: member.program.clone(),
            world_size: member.world_size,
            ranks: member.ranks.clone(),
        };
        frame::write(&mut to_hub, &hello)?;
        let shared = Arc::new(Shared {
            positions: Arc::new(Positions::new(member.world_size)),
            to_hub: Mutex::new(to_hub),
            known: Monitor::default(),
            takes_reports: Mutex::new(Weak::new()),
            member,
        });
        let (alive, is_alive) = channel();
        let own = Self { shared, server, local_ip: None, _alive: alive };
        let reader = Arc::clone(&own.shared);
        spawn("side-channel-from-hub", move || reader.hear(&mut from_hub))?;
        own.shared.wait_for_all(start, own.server.as_ref())?;
        own.server.iter().for_each(Server::wait_until_closed);
        let teller = Arc::clone(&own.shared);
        spawn("side-channel-positions", move || teller.tell_positions(&is_alive))?;
        Ok(own)
    }

    /// The address of this host by which the process of the hub is reached.
    ///
    /// # Errors
    /// When this process reaches it otherwise than over a network.
    pub(crate) fn local_ip(&self) -> std::io::Result<IpAddr> {
        self.local_ip.ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
    }

    /// From now on another channel gets the reports that come over this one. It connects the same processes by another hub.
    pub(crate) fn pass_reports_to(&self, other: &Arc<SideChannel>) {
        *self.shared.takes_reports.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(other);
    }

    /// Gives the report of a failure to all others, and waits for none of theirs.
    ///
    /// # Errors
    /// [`CommError::Interrupted`] where the process of the hub is gone.
    pub(crate) fn report(&self, report: Vec<u8>) -> Result<(), CommError> {
        self.shared.send(&ToHub::Report(report), "a report")
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
        self.shared.known.notify_all();
        // Where the hub is gone, so is the process of rank 0, which every other process notices.
        let _ = self.shared.send(&self.shared.own_positions(), "a stop");
        let _ = self.shared.send(&ToHub::Stop, "a stop");
    }

    /// Whether a rank of any process has failed.
    pub fn is_stopped(&self) -> bool {
        self.shared.known().is_stopped
    }

    /// Whether another process has failed and has said so; one that something has ended says nothing.
    pub(crate) fn was_stopped_by_another(&self) -> bool {
        self.shared.known().was_stopped
    }

    /// Whether a process has ended without having said so: it has been killed, or its host is gone.
    pub fn has_lost_a_process(&self) -> bool {
        self.shared.known().has_lost_some
    }

    /// Whether the process of a rank has ended.
    pub fn has_ended(&self, rank: usize) -> bool {
        let known = self.shared.known();
        let processes = known.processes.as_deref().unwrap_or_default();
        let of_rank = processes.iter().find(|ranks| ranks.contains(&rank));
        of_rank.is_some_and(|ranks| known.has_ended(ranks))
    }

    /// The first rank of a process that has ended, if any has.
    pub fn first_ended(&self) -> Option<usize> {
        let known = self.shared.known();
        let first = known.processes.iter().flatten().next().filter(|ranks| known.has_ended(ranks));
        first.map(|ranks| ranks.start).or_else(|| known.ended.first().copied())
    }

    /// A process has failed, whose first rank this is, and has told this one beside the channel.
    pub fn take_report(&self, first_rank: usize, report: Vec<u8>) {
        let mut known = self.shared.known();
        known.is_stopped = true;
        known.reports.entry(first_rank).or_insert(report);
        drop(known);
        self.shared.known.notify_all();
    }

    /// As [`World::exchange_failures`](crate::run::world::World::exchange_failures).
    pub fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        if let Err(error) = self.report(report.clone()) {
            tracing::debug!(%error, "the report goes to the other processes directly, if at all");
        }
        let processes = self.processes();
        let mut known = self.shared.known();
        known.reports.insert(self.shared.member.ranks.start, report);
        let is_open = |known: &Known| {
            let is_missing =
                |ranks: &Range<usize>| !known.reports.contains_key(&ranks.start) && !known.has_ended(ranks);
            processes.iter().any(is_missing)
        };
        let start = Instant::now();
        while is_open(&known) && start.elapsed() < time {
            known = self.shared.known.wait(known, start, time);
        }
        processes.iter().map(|ranks| (ranks.clone(), known.reports.get(&ranks.start).cloned())).collect()
    }
}

impl Drop for SideChannel {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.shared.wait_for_others_after_a_failure();
        }
        let _ = self.shared.send(&ToHub::End, "the end");
        self.shared.to_hub.lock().unwrap_or_else(PoisonError::into_inner).close();
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn check(&self) -> Result<(), CommError> {
        if self.known().is_stopped { Err(CommError::Stopped) } else { Ok(()) }
    }

    /// Takes note of what the hub says, until the connection is gone.
    fn hear(&self, from_hub: &mut impl Read) {
        while let Ok(Some(frame)) = frame::read::<FromHub>(from_hub) {
            if let FromHub::Report { first_rank, report } = &frame {
                let other = self.takes_reports.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
                other.iter().for_each(|other| other.take_report(*first_rank, report.clone()));
            }
            self.known().note(frame, &self.member.ranks, &self.positions);
            self.known.notify_all();
        }
        let mut known = self.known();
        known.is_cut = true;
        // The process of rank 0 has said that it ends, unless something ended it.
        known.is_stopped |= !known.ended.contains(&0);
        drop(known);
        self.known.notify_all();
    }

    fn send(&self, frame: &ToHub, operation: &str) -> Result<(), CommError> {
        let mut to_hub = self.to_hub.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = frame::write(&mut *to_hub, frame);
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
        let (start, timeout) = (Instant::now(), self.member.timeout);
        let mut known = self.known();
        loop {
            if let Some(found) = said(&mut known) {
                return Ok(found);
            }
            if let Some((rank, exchange, expected)) = known.mismatch {
                let [operation, expected] = [exchange, expected].map(|of| of.what().to_owned());
                return Err(CommError::Mismatch { rank, operation, expected });
            }
            let now = Instant::now();
            let waited = now.duration_since(start);
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
            if waited >= timeout {
                return Err(CommError::Timeout {
                    waited,
                    operation,
                    missing: others().flat_map(Clone::clone).collect(),
                });
            }
            known = self.known.wait(known, now, timeout - waited);
        }
    }

    /// The ranks of the process with this first one.
    fn ranks_beside(&self, first_rank: usize) -> Vec<usize> {
        let known = self.known();
        let processes = known.processes.as_deref().unwrap_or_default();
        processes.iter().find(|ranks| ranks.start == first_rank).cloned().into_iter().flatten().collect()
    }

    fn wait_for_all(&self, start: Instant, server: Option<&Server>) -> Result<(), SideChannelError> {
        let timeout = self.member.start_timeout;
        let mut known = self.known();
        loop {
            if let Some(reason) = known.refused.take() {
                return Err(SideChannelError::Refused(reason));
            }
            if known.processes.is_some() {
                return Ok(());
            }
            let now = Instant::now();
            let waited = now.duration_since(start);
            let missing = || server.map_or_else(Vec::new, Server::missing);
            if known.is_cut {
                let gone = std::io::Error::other("the process that listens has ended");
                return Err(SideChannelError::Io(gone));
            }
            if waited >= timeout {
                return Err(SideChannelError::Missing { waited, missing: missing() });
            }
            known = self.known.wait(known, now, timeout - waited);
        }
    }

    /// After a failure, the hub ends when the others have, or have had time to: with it goes what they have not read yet of the reports.
    fn wait_for_others_after_a_failure(&self) {
        let start = Instant::now();
        let mut known = self.known();
        let processes = known.processes.clone().unwrap_or_default();
        let is_there =
            |known: &Known, ranks: &Range<usize>| *ranks != self.member.ranks && !known.has_ended(ranks);
        let has_failed = |known: &Known| known.is_stopped || !known.reports.is_empty();
        while has_failed(&known)
            && processes.iter().any(|ranks| is_there(&known, ranks))
            && start.elapsed() < LONGEST_FAREWELL
        {
            known = self.known.wait(known, start, LONGEST_FAREWELL);
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

impl Exchange {
    fn what(self) -> &'static str {
        match self {
            Self::AddWords { .. } => "a sum of words of all processes",
            Self::Gather => "messages to the first process",
            Self::Broadcast => "a message of the first process",
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
