//! A process's end of the control channel.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::super::{ClockOffset, Positions};
use super::connect::{Outgoing, connected};
use super::connections::{Clock, Connections};
use super::error::ControlChannelError;
use super::frame::{self, Exchange, Hello, ToCoordinator};
use super::known::Known;
use super::member::Member;
use super::server::Server;
use super::shared::Shared;
use crate::CommError;
use crate::sync::{Instant, Sender, channel, thread};

/// How long the coordinator's process waits for the others before it ends, after a failure.
const LONGEST_FAREWELL: Duration = Duration::from_millis(400);

/// Longer than any run, and short enough to be added to a time.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// A process's end of the control channel.
#[derive(Debug)]
pub struct ControlChannel {
    shared: Arc<Shared>,
    /// In the process that has the coordinator.
    connections: Option<Arc<Connections>>,
    /// In the same process: what others connect to.
    _server: Option<Server>,
    /// The address of this host in the connection with the coordinator.
    local_ip: Option<IpAddr>,
    /// Dropped with the channel. The thread that sends positions sees this and ends.
    _alive: Sender<()>,
}

impl ControlChannel {
    /// Listens for the other processes; for the process that has the coordinator.
    ///
    /// # Errors
    /// When the address is of no interface of this host, or its port is taken.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, ControlChannelError> {
        TcpListener::bind(address).map_err(|source| ControlChannelError::Listen { address, source })
    }

    /// The end of the process that has the coordinator. The others connect to `listener`, and compare their clocks with `clock`. Returns
    /// once all ranks are there.
    ///
    /// # Errors
    /// When they do not come in time, or do not fit together.
    pub fn host(
        listener: TcpListener,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
        member: Member,
    ) -> Result<Self, ControlChannelError> {
        let address = listener.local_addr()?;
        let clock: Clock = Arc::new(clock);
        let server = Server::start(listener, member.clone(), clock)?;
        Self::connect(address, member, Some(server))
    }

    /// The end of another process. Returns once all ranks are there.
    ///
    /// # Errors
    /// As [`ControlChannel::host`], and when nobody answers on the address.
    pub fn join(address: SocketAddr, member: Member) -> Result<Self, ControlChannelError> {
        Self::connect(address, member, None)
    }

    fn connect(
        address: SocketAddr,
        member: Member,
        server: Option<Server>,
    ) -> Result<Self, ControlChannelError> {
        let start = Instant::now();
        let stream = connected(address, member.secret.as_ref(), member.start_timeout)?;
        stream.set_read_timeout(None)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(member.timeout))?;
        let local_ip = stream.local_addr()?.ip();
        let connections = server.as_ref().map(|server| Arc::clone(server.connections()));
        let connected = Self::over(Box::new(stream.try_clone()?), stream, member, connections, start);
        let mut own = connected.map_err(|error| match (error, &server) {
            (ControlChannelError::Missing { waited, missing, .. }, Some(server)) => {
                ControlChannelError::Missing { waited, missing, num_dropped: server.num_dropped() }
            }
            (error, _) => error,
        })?;
        server.iter().for_each(Server::wait_until_closed);
        (own.local_ip, own._server) = (Some(local_ip), server);
        Ok(own)
    }

    /// The end of a process that is connected with the coordinator, which is in the process that has `connections`. `start` is when this
    /// one began to connect.
    pub(super) fn over(
        mut to_coordinator: Box<dyn Outgoing>,
        mut from_coordinator: impl Read + Send + 'static,
        member: Member,
        connections: Option<Arc<Connections>>,
        start: Instant,
    ) -> Result<Self, ControlChannelError> {
        let hello = Hello {
            greeting: Hello::GREETING,
            program: member.program.clone(),
            world_size: member.world_size,
            ranks: member.ranks.clone(),
        };
        frame::write(&mut to_coordinator, &hello)?;
        let shared = Arc::new(Shared::new(member, to_coordinator));
        let (alive, is_alive) = channel();
        let own = Self { shared, connections, _server: None, local_ip: None, _alive: alive };
        let reader = Arc::clone(&own.shared);
        spawn("control-receive", move || reader.hear(&mut from_coordinator))?;
        own.shared.wait_until_all_have_come(start, own.connections.as_deref())?;
        let teller = Arc::clone(&own.shared);
        spawn("positions", move || teller.tell_positions(&is_alive))?;
        Ok(own)
    }

    /// The address of this host in the connection with the coordinator's process.
    ///
    /// # Errors
    /// When this process does not reach it over a network.
    pub(crate) fn local_ip(&self) -> std::io::Result<IpAddr> {
        self.local_ip.ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
    }

    /// From now on this channel passes to another one the reports that it receives, and which processes have ended. Both connect the same
    /// processes. This channel's coordinator is in the process of `coordinator_rank`, the other's is elsewhere.
    pub(crate) fn pass_to(&self, other: &ControlChannel, coordinator_rank: usize) {
        self.shared.pass_to(&other.shared, coordinator_rank);
    }

    /// Gives the report of a failure to all others, and waits for none of theirs.
    ///
    /// # Errors
    /// [`CommError::Interrupted`] if the coordinator's process has ended.
    pub(crate) fn report(&self, report: Vec<u8>) -> Result<(), CommError> {
        self.shared.known().is_stopped = true;
        self.shared.send(&ToCoordinator::Report(report), "a report")
    }

    /// The ranks of each process, ascending.
    pub fn processes(&self) -> Vec<Range<usize>> {
        self.shared.known().processes.clone().unwrap_or_default()
    }

    /// Where each rank is, as far as this process knows.
    pub fn positions(&self) -> &Arc<Positions> {
        &self.shared.positions
    }

    /// As [`World::add_words`](crate::world::World::add_words).
    ///
    /// # Errors
    /// As there.
    pub fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.add_words_in_time(words, self.shared.member.timeout)
    }

    /// As [`World::add_words_in_any_time`](crate::world::World::add_words_in_any_time).
    ///
    /// # Errors
    /// As there.
    pub fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.add_words_in_time(words, LONGEST)
    }

    fn add_words_in_time(&self, words: &mut [u64], timeout: Duration) -> Result<(), CommError> {
        let own = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let exchange = Exchange::AddWords { num_words: words.len() };
        let sums = self.shared.exchange_in_time(exchange, own, timeout)?;
        for (word, &sum) in words.iter_mut().zip(sums.concat().as_chunks().0) {
            *word = u64::from_le_bytes(sum);
        }
        Ok(())
    }

    /// As [`World::gather`](crate::world::World::gather).
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

    /// As [`World::broadcast`](crate::world::World::broadcast).
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
    /// As [`World::clock_offset`](crate::world::World::clock_offset).
    pub fn clock_offset(&self, clock: impl Fn() -> u64) -> Result<ClockOffset, CommError> {
        if self.shared.member.ranks.contains(&0) {
            return self.shared.check().map(|()| ClockOffset::ZERO);
        }
        let asked_ns = clock();
        self.shared.known().time_ns = None;
        self.shared.send(&ToCoordinator::AskTime, "a question for the time")?;
        let answered_ns = self.shared.wait("a question for the time", |known| known.time_ns.take())?;
        Ok(ClockOffset::of_answer(asked_ns, answered_ns, clock()))
    }

    /// A rank of this process has failed.
    pub fn stop(&self) {
        let mut known = self.shared.known();
        (known.is_stopped, known.has_stopped) = (true, true);
        drop(known);
        self.shared.known.notify_all();
        // It fails if the coordinator's process has ended. That is the process of rank 0, and every other process notices its end.
        let _ = self.shared.send(&self.shared.own_positions(), "a stop");
        let _ = self.shared.send(&ToCoordinator::Stop, "a stop");
    }

    /// Whether a rank of any process has failed.
    pub fn is_stopped(&self) -> bool {
        self.shared.known().is_stopped
    }

    /// Whether another process has failed and has said so; one that something has ended says nothing.
    pub(crate) fn was_stopped_by_another(&self) -> bool {
        self.shared.known().was_stopped
    }

    /// Whether a process has ended without having said so: it was killed, or its host is down.
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
        self.shared.take_report(first_rank, report);
    }

    /// As [`World::exchange_failures`](crate::world::World::exchange_failures).
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

impl Drop for ControlChannel {
    fn drop(&mut self) {
        match &self.connections {
            None => drop(self.shared.send(&ToCoordinator::End, "the end")),
            Some(connections) => self.end_of_coordinator(connections),
        }
        self.shared.close();
    }
}

impl ControlChannel {
    /// Ends the coordinator, which ends with this process: waits until the others have received what it sent.
    fn end_of_coordinator(&self, connections: &Connections) {
        let start = Instant::now();
        let has_failed = self.shared.known().has_failed();
        // After a failure, one of them may be frozen; and the others exchange their reports through the coordinator.
        let timeout = self.shared.member.timeout;
        let time = if has_failed { LONGEST_FAREWELL.min(timeout) } else { timeout };
        if has_failed {
            // Who waits for a report of this one hears that there is none.
            let _ = self.shared.send(&ToCoordinator::End, "the end");
            connections.wait_until_left(&self.shared.member.ranks, time);
        }
        // It fails if this process was refused. Then all that are connected were refused too, and end.
        let _ = self.shared.send(&ToCoordinator::EndOfCoordinator, "the end");
        connections.wait_until_over(time.saturating_sub(start.elapsed()));
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map(drop)
}
