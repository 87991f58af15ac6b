//! What the coordinator does with the frames that it receives: a state machine without threads, clocks or sockets.
//!
//! It is in the process of rank 0, and has a connection with every process, that one included.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::Position;
use super::frame::{Exchange, FromCoordinator, Hello, ToCoordinator};

/// The number of a connection, in the order in which processes greeted.
pub(super) type ConnectionId = usize;

/// A frame for a connection.
pub(super) type Sent = (ConnectionId, FromCoordinator);

/// The state of the coordinator.
#[derive(Debug)]
pub(super) struct Coordinator {
    program: String,
    world_size: usize,
    connections: Vec<Connection>,
    has_begun: bool,
    /// Why the ranks of this job cannot begin.
    mistake: Option<String>,
    /// That processes take part in different exchanges.
    mismatch: Option<FromCoordinator>,
    is_stopped: bool,
    /// Exchanges that not every process has joined, by number.
    exchanges: BTreeMap<u64, Joined>,
}

#[derive(Debug)]
struct Connection {
    ranks: Range<usize>,
    /// Where its ranks were when it last said so.
    positions: Vec<Position>,
    has_ended: bool,
    /// It gives nothing to later exchanges.
    has_stopped: bool,
    /// It has received that the coordinator ends.
    has_heard: bool,
}

#[derive(Debug)]
struct Joined {
    exchange: Exchange,
    given: BTreeMap<ConnectionId, Vec<u8>>,
}

impl Coordinator {
    /// For so many ranks of a program.
    pub(super) fn new(program: String, world_size: usize) -> Self {
        Self {
            program,
            world_size,
            connections: Vec::new(),
            has_begun: false,
            mistake: None,
            mismatch: None,
            is_stopped: false,
            exchanges: BTreeMap::new(),
        }
    }

    /// Ranks that have not greeted.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.world_size)
            .filter(|rank| !self.connections.iter().any(|connection| connection.ranks.contains(rank)))
            .collect()
    }

    /// A process greets. Returns the number of its connection, and the frames to send. A process that cannot be admitted is told why. So
    /// are the others, if they still wait for all to come: then the ranks of this job were started wrongly. Later it can only be another
    /// job's process, which changes nothing here.
    pub(super) fn greet(&mut self, hello: Hello) -> Result<(ConnectionId, Vec<Sent>), (String, Vec<Sent>)> {
        if let Some(reason) = self.mistake.clone().or_else(|| self.reason_to_refuse(&hello)) {
            self.mistake = (!self.has_begun).then(|| reason.clone());
            let waiting = if self.has_begun {
                Vec::new()
            } else {
                self.to_all(|_| FromCoordinator::Refuse(reason.clone()))
            };
            return Err((reason, waiting));
        }
        let positions = vec![Position::Idle; hello.ranks.len()];
        let ranks = hello.ranks;
        self.connections.push(Connection {
            ranks,
            positions,
            has_ended: false,
            has_stopped: false,
            has_heard: false,
        });
        let id = self.connections.len() - 1;
        if !self.missing().is_empty() {
            return Ok((id, Vec::new()));
        }
        self.has_begun = true;
        let processes: Vec<_> =
            self.in_order().into_iter().map(|id| self.connections[id].ranks.clone()).collect();
        Ok((id, self.to_all(|_| FromCoordinator::Begin(processes.clone()))))
    }

    fn reason_to_refuse(&self, hello: &Hello) -> Option<String> {
        let Hello { program, world_size, ranks, .. } = hello;
        let who = format!("the process of rank {}", ranks.start);
        if *program != self.program {
            return Some(format!(
                "{who} runs {program}, that of rank 0 runs {}: start the same program on every host",
                self.program
            ));
        }
        if *world_size != self.world_size {
            return Some(format!(
                "{who} is one of {world_size} ranks, that of rank 0 one of {}: give every process the same number",
                self.world_size
            ));
        }
        if ranks.is_empty() || ranks.end > self.world_size {
            return Some(format!(
                "a process has ranks {}..{} of {}: they count from 0",
                ranks.start, ranks.end, self.world_size
            ));
        }
        let twice = self
            .connections
            .iter()
            .find(|connection| connection.ranks.start < ranks.end && ranks.start < connection.ranks.end);
        twice.map(|connection| {
            let rank = connection.ranks.start.max(ranks.start);
            format!("two processes are rank {rank}: give each process a rank of its own, and each job a port of its own")
        })
    }

    /// What a process has sent, after all have begun.
    pub(super) fn take(&mut self, from: ConnectionId, frame: ToCoordinator) -> Vec<Sent> {
        let first_rank = self.connections[from].ranks.start;
        match frame {
            ToCoordinator::Give { number, exchange, message } => self.give(from, number, exchange, message),
            // The connection answers, which has the clock.
            ToCoordinator::AskTime => Vec::new(),
            ToCoordinator::Positions(positions) => {
                let connection = &mut self.connections[from];
                if positions.len() == connection.ranks.len() {
                    connection.positions = positions;
                }
                Vec::new()
            }
            ToCoordinator::Stop => self.stop(from),
            ToCoordinator::Report(report) => {
                self.to_others(from, |_| FromCoordinator::Report { first_rank, report: report.clone() })
            }
            ToCoordinator::End => self.end(from, true),
            ToCoordinator::EndOfCoordinator => {
                let mut sent = self.end(from, true);
                sent.extend(self.to_others(from, |_| FromCoordinator::EndOfCoordinator));
                sent
            }
            ToCoordinator::Heard => {
                self.connections[from].has_heard = true;
                Vec::new()
            }
        }
    }

    /// Whether all processes but the one with these ranks have ended.
    pub(super) fn is_left(&self, by_all_but: &Range<usize>) -> bool {
        self.connections.iter().all(|connection| connection.has_ended || connection.ranks == *by_all_but)
    }

    /// Whether every process has ended, or has received that the coordinator ends.
    pub(super) fn is_over(&self) -> bool {
        self.connections.iter().all(|connection| connection.has_ended || connection.has_heard)
    }

    /// A connection is closed, whether or not its process has said that it ends.
    pub(super) fn lose(&mut self, from: ConnectionId) -> Vec<Sent> {
        self.end(from, false)
    }

    fn end(&mut self, from: ConnectionId, has_said_so: bool) -> Vec<Sent> {
        if std::mem::replace(&mut self.connections[from].has_ended, true) {
            return Vec::new();
        }
        let first_rank = self.connections[from].ranks.start;
        if self.has_begun {
            let mut sent = self.to_others(from, |_| FromCoordinator::Ended { first_rank, has_said_so });
            sent.extend(self.lost_without(from));
            return sent;
        }
        let reason = format!("the process of rank {first_rank} has ended before all ranks were there");
        self.mistake.get_or_insert_with(|| reason.clone());
        self.to_others(from, |_| FromCoordinator::Refuse(reason.clone()))
    }

    /// Positions of all ranks, for the fallback reporters.
    pub(super) fn positions_for_heirs(&self) -> Vec<Sent> {
        let reporters = fallback_reporters(self.world_size);
        let is_reporter =
            |id: ConnectionId| reporters.iter().any(|rank| self.connections[id].ranks.contains(rank));
        self.to_all(|_| self.positions()).into_iter().filter(|&(id, _)| is_reporter(id)).collect()
    }

    fn give(&mut self, from: ConnectionId, number: u64, exchange: Exchange, message: Vec<u8>) -> Vec<Sent> {
        if let Some(mismatch) = &self.mismatch {
            return vec![(from, mismatch.clone())];
        }
        let joined =
            self.exchanges.entry(number).or_insert_with(|| Joined { exchange, given: BTreeMap::new() });
        let expected = joined.exchange;
        let is_whole = |num_words: usize| message.len() == num_words * size_of::<u64>();
        let is_sound = match exchange {
            Exchange::AddWords { num_words } => is_whole(num_words),
            Exchange::Gather | Exchange::Broadcast => true,
        };
        if exchange != expected || !is_sound {
            let rank = self.connections[from].ranks.start;
            // Nothing can be made of this exchange nor of those after it.
            self.exchanges.clear();
            self.mismatch = Some(FromCoordinator::Mismatch { rank, exchange, expected });
            return self.to_all(|_| FromCoordinator::Mismatch { rank, exchange, expected });
        }
        joined.given.insert(from, message);
        if joined.given.len() < self.connections.len() {
            let takes_no_part = |connection: &Connection| connection.has_ended || connection.has_stopped;
            let is_lost =
                |id: &ConnectionId| takes_no_part(&self.connections[*id]) && !joined.given.contains_key(id);
            let lost = (0..self.connections.len()).find(is_lost).map(|id| self.connections[id].ranks.start);
            return lost
                .map(|first_rank| (from, FromCoordinator::Lost { number, first_rank }))
                .into_iter()
                .collect();
        }
        let Some(Joined { mut given, .. }) = self.exchanges.remove(&number) else { return Vec::new() };
        let order = self.in_order();
        let first = order[0];
        match exchange {
            Exchange::AddWords { num_words } => {
                let sums = sums(num_words, given.values());
                self.to_all(|_| FromCoordinator::Take { number, messages: vec![sums.clone()] })
            }
            Exchange::Gather => {
                let messages = order.iter().filter_map(|id| given.remove(id)).collect();
                vec![(first, FromCoordinator::Take { number, messages })]
            }
            Exchange::Broadcast => {
                let message = given.remove(&first).unwrap_or_default();
                self.to_all(|_| FromCoordinator::Take { number, messages: vec![message.clone()] })
            }
        }
    }

    /// What a process gave before it stopped still counts, so that the others come as far as they can.
    fn stop(&mut self, from: ConnectionId) -> Vec<Sent> {
        let mut sent = Vec::new();
        if !std::mem::replace(&mut self.is_stopped, true) {
            sent.extend(self.to_all(|_| self.positions()));
            sent.extend(self.to_others(from, |_| FromCoordinator::Stop));
        }
        if !std::mem::replace(&mut self.connections[from].has_stopped, true) {
            sent.extend(self.lost_without(from));
        }
        sent
    }

    /// Tells those who wait for an exchange that a process will not give its part.
    fn lost_without(&self, stopped: ConnectionId) -> Vec<Sent> {
        let first_rank = self.connections[stopped].ranks.start;
        let open = self.exchanges.iter().filter(|(_, joined)| !joined.given.contains_key(&stopped));
        let lost = |(&number, joined): (&u64, &Joined)| {
            let waiting: Vec<ConnectionId> = joined.given.keys().copied().collect();
            waiting.into_iter().map(move |id| (id, FromCoordinator::Lost { number, first_rank }))
        };
        open.flat_map(lost).collect()
    }

    fn positions(&self) -> FromCoordinator {
        let of = |connection: &Connection| (connection.ranks.start, connection.positions.clone());
        FromCoordinator::Positions(self.connections.iter().map(of).collect())
    }

    /// The numbers of the connections in the order of their ranks.
    fn in_order(&self) -> Vec<ConnectionId> {
        let mut ids: Vec<ConnectionId> = (0..self.connections.len()).collect();
        ids.sort_by_key(|&id| self.connections[id].ranks.start);
        ids
    }

    fn to_all(&self, frame: impl Fn(ConnectionId) -> FromCoordinator) -> Vec<Sent> {
        let live = (0..self.connections.len()).filter(|&id| !self.connections[id].has_ended);
        live.map(|id| (id, frame(id))).collect()
    }

    fn to_others(&self, from: ConnectionId, frame: impl Fn(ConnectionId) -> FromCoordinator) -> Vec<Sent> {
        self.to_all(frame).into_iter().filter(|&(id, _)| id != from).collect()
    }
}

/// The ranks whose processes can report if that of rank 0 cannot: the two behind it, and, since a host may be lost with all of its ranks, the middle one.
pub(in crate::world) fn fallback_reporters(world_size: usize) -> BTreeSet<usize> {
    [1, 2, world_size / 2].into_iter().filter(|rank| (1..world_size).contains(rank)).collect()
}

/// The sums of words, wrapping.
fn sums<'a>(num_words: usize, messages: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut sums = vec![0_u64; num_words];
    for message in messages {
        for (sum, &word) in sums.iter_mut().zip(message.as_chunks().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(word));
        }
    }
    sums.into_iter().flat_map(u64::to_le_bytes).collect()
}
