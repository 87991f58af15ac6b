//! What the threads of a process share of its end of the control channel: the way to the coordinator, and what the coordinator has said.

use std::io::Read;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::Positions;
use super::connect::Outgoing;
use super::connections::Connections;
use super::error::ControlChannelError;
use super::frame::{self, Exchange, FromCoordinator, ToCoordinator};
use super::known::Known;
use super::member::Member;
use crate::CommError;
use crate::sync::{Instant, Monitor, Mutex, MutexGuard, PoisonError, Receiver, RecvTimeoutError};

/// How often a process says where its ranks are.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) member: Member,
    pub(super) positions: Arc<Positions>,
    to_coordinator: Mutex<Box<dyn Outgoing>>,
    pub(super) known: Monitor<Known>,
    passes_to: Mutex<Option<PassesTo>>,
}

/// Another channel. Reports, and news of processes that have ended, are passed to it.
#[derive(Clone, Debug)]
struct PassesTo {
    shared: Weak<Shared>,
    /// The rank of the process that has this channel's coordinator.
    coordinator_rank: usize,
}

impl Shared {
    /// Of a process that has greeted over this connection.
    pub(super) fn new(member: Member, to_coordinator: Box<dyn Outgoing>) -> Self {
        Self {
            positions: Arc::new(Positions::new(member.world_size)),
            to_coordinator: Mutex::new(to_coordinator),
            known: Monitor::default(),
            passes_to: Mutex::new(None),
            member,
        }
    }

    /// Nothing more is sent to the coordinator.
    pub(super) fn close(&self) {
        self.to_coordinator.lock().unwrap_or_else(PoisonError::into_inner).close();
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    pub(super) fn check(&self) -> Result<(), CommError> {
        if self.known().is_stopped { Err(CommError::Stopped) } else { Ok(()) }
    }

    /// Records what the coordinator says, until the connection is closed.
    pub(super) fn hear(&self, from_coordinator: &mut impl Read) {
        while let Ok(Some(frame)) = frame::read::<FromCoordinator>(from_coordinator) {
            let is_over = frame == FromCoordinator::EndOfCoordinator;
            let is_passed = matches!(frame, FromCoordinator::Report { .. } | FromCoordinator::Ended { .. });
            let passed = is_passed.then(|| frame.clone());
            self.known().note(frame, &self.member.ranks, &self.positions);
            self.known.notify_all();
            match passed {
                Some(FromCoordinator::Report { first_rank, report }) => {
                    self.pass(|other, _| other.take_report(first_rank, report));
                }
                Some(FromCoordinator::Ended { first_rank, .. }) => {
                    self.pass(|other, _| other.take_end(first_rank))
                }
                _ => {}
            }
            if is_over {
                // It fails only if the coordinator has not waited for it.
                let _ = self.send(&ToCoordinator::Heard, "an answer to the end");
            }
        }
        let mut known = self.known();
        known.is_cut = true;
        // The coordinator's process has said that it ends, unless something killed it.
        known.is_stopped |= !known.is_over;
        drop(known);
        self.known.notify_all();
        self.pass(Self::take_end);
    }

    pub(super) fn send(&self, frame: &ToCoordinator, operation: &str) -> Result<(), CommError> {
        let mut to_coordinator = self.to_coordinator.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = frame::write(&mut *to_coordinator, frame);
        sent.map_err(|_| CommError::Interrupted { operation: operation.to_owned(), missing: vec![0] })
    }

    /// As [`ControlChannel::pass_to`](super::ControlChannel::pass_to).
    pub(super) fn pass_to(&self, other: &Arc<Self>, coordinator_rank: usize) {
        let passes_to = PassesTo { shared: Arc::downgrade(other), coordinator_rank };
        *self.passes_to.lock().unwrap_or_else(PoisonError::into_inner) = Some(passes_to);
        // What has come before.
        let known = self.known();
        let (ended, reports, is_cut) = (known.ended.clone(), known.reports.clone(), known.is_cut);
        drop(known);
        ended.into_iter().chain(is_cut.then_some(coordinator_rank)).for_each(|rank| other.take_end(rank));
        reports.into_iter().for_each(|(first_rank, report)| other.take_report(first_rank, report));
    }

    /// A process has failed, and has told this one beside the channel.
    pub(super) fn take_report(&self, first_rank: usize, report: Vec<u8>) {
        let mut known = self.known();
        known.is_stopped = true;
        known.reports.entry(first_rank).or_insert(report);
        drop(known);
        self.known.notify_all();
    }

    /// A process with this first rank has ended, which this one has heard beside the channel.
    fn take_end(&self, first_rank: usize) {
        self.known().ended.insert(first_rank);
        self.known.notify_all();
    }

    /// Tells another channel something, if one is to hear it.
    fn pass(&self, tell: impl FnOnce(&Self, usize)) {
        let passes_to = self.passes_to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(PassesTo { shared, coordinator_rank }) = passes_to
            && let Some(other) = shared.upgrade()
        {
            tell(&other, coordinator_rank);
        }
    }

    /// Gives this process's part of the next exchange, whose number is returned.
    pub(super) fn give(&self, exchange: Exchange, message: Vec<u8>) -> Result<u64, CommError> {
        let mut known = self.known();
        if known.has_stopped {
            return Err(CommError::Stopped);
        }
        let number = known.num_begun;
        known.num_begun += 1;
        drop(known);
        self.send(&ToCoordinator::Give { number, exchange, message }, exchange.what())?;
        Ok(number)
    }

    pub(super) fn exchange(&self, exchange: Exchange, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        self.exchange_in_time(exchange, message, self.member.timeout)
    }

    /// As [`Shared::exchange`], with another limit of its time.
    pub(super) fn exchange_in_time(
        &self,
        exchange: Exchange,
        message: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let number = self.give(exchange, message)?;
        let taken = self.wait_in_time(exchange.what(), |known| known.taken.remove(&number), timeout)?;
        taken.map_err(|first_rank| CommError::Interrupted {
            operation: exchange.what().to_owned(),
            missing: self.ranks_beside(first_rank),
        })
    }

    /// Waits for something that the coordinator says.
    pub(super) fn wait<T>(
        &self,
        operation: &'static str,
        said: impl FnMut(&mut Known) -> Option<T>,
    ) -> Result<T, CommError> {
        self.wait_in_time(operation, said, self.member.timeout)
    }

    fn wait_in_time<T>(
        &self,
        operation: &'static str,
        mut said: impl FnMut(&mut Known) -> Option<T>,
        timeout: Duration,
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

    pub(super) fn wait_until_all_have_come(
        &self,
        start: Instant,
        connections: Option<&Connections>,
    ) -> Result<(), ControlChannelError> {
        let timeout = self.member.start_timeout;
        let mut known = self.known();
        loop {
            if let Some(reason) = known.refused.take() {
                return Err(ControlChannelError::Refused(reason));
            }
            if known.processes.is_some() {
                return Ok(());
            }
            let now = Instant::now();
            let waited = now.duration_since(start);
            let missing = || connections.map_or_else(Vec::new, Connections::missing);
            if known.is_cut {
                let ended = std::io::Error::other("the process that listens has ended");
                return Err(ControlChannelError::Io(ended));
            }
            if waited >= timeout {
                return Err(ControlChannelError::Missing { waited, missing: missing(), num_dropped: 0 });
            }
            known = self.known.wait(known, now, timeout - waited);
        }
    }

    pub(super) fn own_positions(&self) -> ToCoordinator {
        ToCoordinator::Positions(self.member.ranks.clone().map(|rank| self.positions.get(rank)).collect())
    }

    /// Runs until the channel is dropped or its connection is closed.
    pub(super) fn tell_positions(&self, is_alive: &Receiver<()>) {
        let mut last = ToCoordinator::AskTime;
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
