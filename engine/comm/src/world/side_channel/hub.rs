//! What the hub does with the frames that it gets: a state machine without threads, clocks or sockets.
//!
//! It is in the process of rank 0, and has a seat for every process, that one too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::Position;
use super::frame::{Exchange, FromHub, Hello, ToHub};

/// A connection, by the order in which they greeted.
pub(super) type SeatId = usize;

/// A frame for a seat.
pub(super) type Sent = (SeatId, FromHub);

/// The state of the hub.
#[derive(Debug)]
pub(super) struct Hub {
    program: String,
    world_size: usize,
    seats: Vec<Seat>,
    has_begun: bool,
    /// Why the ranks of this job cannot begin.
    mistake: Option<String>,
    /// That processes take part in different exchanges.
    mismatch: Option<FromHub>,
    is_stopped: bool,
    /// Exchanges that not every process has joined, by number.
    exchanges: BTreeMap<u64, Joined>,
}

#[derive(Debug)]
struct Seat {
    ranks: Range<usize>,
    /// Where its ranks were when it last said so.
    positions: Vec<Position>,
    has_ended: bool,
    /// It gives nothing to later exchanges.
    has_stopped: bool,
    /// That the hub ends.
    has_heard: bool,
}

#[derive(Debug)]
struct Joined {
    exchange: Exchange,
    given: BTreeMap<SeatId, Vec<u8>>,
}

impl Hub {
    /// For so many ranks of a program.
    pub(super) fn new(program: String, world_size: usize) -> Self {
        Self {
            program,
            world_size,
            seats: Vec::new(),
            has_begun: false,
            mistake: None,
            mismatch: None,
            is_stopped: false,
            exchanges: BTreeMap::new(),
        }
    }

    /// Ranks that have not greeted.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.world_size).filter(|rank| !self.seats.iter().any(|seat| seat.ranks.contains(rank))).collect()
    }

    /// A process greets: its seat, and what is sent. One that cannot be seated is told why, and so are the others if they wait for all to come:
    /// the ranks of this job were started wrongly. Later it is another job's process, which changes nothing here.
    pub(super) fn greet(&mut self, hello: Hello) -> Result<(SeatId, Vec<Sent>), (String, Vec<Sent>)> {
        if let Some(reason) = self.mistake.clone().or_else(|| self.reason_to_refuse(&hello)) {
            self.mistake = (!self.has_begun).then(|| reason.clone());
            let waiting =
                if self.has_begun { Vec::new() } else { self.to_all(|_| FromHub::Refuse(reason.clone())) };
            return Err((reason, waiting));
        }
        let positions = vec![Position::Idle; hello.ranks.len()];
        let ranks = hello.ranks;
        self.seats.push(Seat { ranks, positions, has_ended: false, has_stopped: false, has_heard: false });
        let id = self.seats.len() - 1;
        if !self.missing().is_empty() {
            return Ok((id, Vec::new()));
        }
        self.has_begun = true;
        let processes: Vec<_> = self.in_order().into_iter().map(|id| self.seats[id].ranks.clone()).collect();
        Ok((id, self.to_all(|_| FromHub::Begin(processes.clone()))))
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
        let twice =
            self.seats.iter().find(|seat| seat.ranks.start < ranks.end && ranks.start < seat.ranks.end);
        twice.map(|seat| {
            let rank = seat.ranks.start.max(ranks.start);
            format!("two processes are rank {rank}: give each process a rank of its own, and each job a port of its own")
        })
    }

    /// What a process has sent, after all have begun.
    pub(super) fn take(&mut self, from: SeatId, frame: ToHub) -> Vec<Sent> {
        let first_rank = self.seats[from].ranks.start;
        match frame {
            ToHub::Give { number, exchange, message } => self.give(from, number, exchange, message),
            // The connection answers, which has the clock.
            ToHub::AskTime => Vec::new(),
            ToHub::Positions(positions) => {
                let seat = &mut self.seats[from];
                if positions.len() == seat.ranks.len() {
                    seat.positions = positions;
                }
                Vec::new()
            }
            ToHub::Stop => self.stop(from),
            ToHub::Report(report) => {
                self.to_others(from, |_| FromHub::Report { first_rank, report: report.clone() })
            }
            ToHub::End => self.end(from, true),
            ToHub::EndOfHub => {
                let mut sent = self.end(from, true);
                sent.extend(self.to_others(from, |_| FromHub::EndOfHub));
                sent
            }
            ToHub::Heard => {
                self.seats[from].has_heard = true;
                Vec::new()
            }
        }
    }

    /// Whether all processes but the one with these ranks have ended.
    pub(super) fn is_left(&self, by_all_but: &Range<usize>) -> bool {
        self.seats.iter().all(|seat| seat.has_ended || seat.ranks == *by_all_but)
    }

    /// Whether everyone has ended, or has heard that the hub ends.
    pub(super) fn is_over(&self) -> bool {
        self.seats.iter().all(|seat| seat.has_ended || seat.has_heard)
    }

    /// A connection is gone, whether or not its process has said that it ends.
    pub(super) fn lose(&mut self, from: SeatId) -> Vec<Sent> {
        self.end(from, false)
    }

    fn end(&mut self, from: SeatId, has_said_so: bool) -> Vec<Sent> {
        if std::mem::replace(&mut self.seats[from].has_ended, true) {
            return Vec::new();
        }
        let first_rank = self.seats[from].ranks.start;
        if self.has_begun {
            let mut sent = self.to_others(from, |_| FromHub::Ended { first_rank, has_said_so });
            sent.extend(self.lost_without(from));
            return sent;
        }
        let reason = format!("the process of rank {first_rank} has ended before all ranks were there");
        self.mistake.get_or_insert_with(|| reason.clone());
        self.to_others(from, |_| FromHub::Refuse(reason.clone()))
    }

    /// Where all ranks are, for the heirs.
    pub(super) fn positions_for_heirs(&self) -> Vec<Sent> {
        let heirs = heirs(self.world_size);
        let is_heir = |id: SeatId| heirs.iter().any(|rank| self.seats[id].ranks.contains(rank));
        self.to_all(|_| self.positions()).into_iter().filter(|&(id, _)| is_heir(id)).collect()
    }

    fn give(&mut self, from: SeatId, number: u64, exchange: Exchange, message: Vec<u8>) -> Vec<Sent> {
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
            let rank = self.seats[from].ranks.start;
            // Nothing can be made of this exchange nor of those after it.
            self.exchanges.clear();
            self.mismatch = Some(FromHub::Mismatch { rank, exchange, expected });
            return self.to_all(|_| FromHub::Mismatch { rank, exchange, expected });
        }
        joined.given.insert(from, message);
        if joined.given.len() < self.seats.len() {
            let is_gone = |seat: &Seat| seat.has_ended || seat.has_stopped;
            let is_lost = |id: &SeatId| is_gone(&self.seats[*id]) && !joined.given.contains_key(id);
            let lost = (0..self.seats.len()).find(is_lost).map(|id| self.seats[id].ranks.start);
            return lost.map(|first_rank| (from, FromHub::Lost { number, first_rank })).into_iter().collect();
        }
        let Some(Joined { mut given, .. }) = self.exchanges.remove(&number) else { return Vec::new() };
        let order = self.in_order();
        let first = order[0];
        match exchange {
            Exchange::AddWords { num_words } => {
                let sums = sums(num_words, given.values());
                self.to_all(|_| FromHub::Take { number, messages: vec![sums.clone()] })
            }
            Exchange::Gather => {
                let messages = order.iter().filter_map(|id| given.remove(id)).collect();
                vec![(first, FromHub::Take { number, messages })]
            }
            Exchange::Broadcast => {
                let message = given.remove(&first).unwrap_or_default();
                self.to_all(|_| FromHub::Take { number, messages: vec![message.clone()] })
            }
        }
    }

    /// What a process gave before it stopped still counts, so that the others come as far as they can.
    fn stop(&mut self, from: SeatId) -> Vec<Sent> {
        let mut sent = Vec::new();
        if !std::mem::replace(&mut self.is_stopped, true) {
            sent.extend(self.to_all(|_| self.positions()));
            sent.extend(self.to_others(from, |_| FromHub::Stop));
        }
        if !std::mem::replace(&mut self.seats[from].has_stopped, true) {
            sent.extend(self.lost_without(from));
        }
        sent
    }

    /// Tells those who wait for an exchange that a process will not give its part.
    fn lost_without(&self, gone: SeatId) -> Vec<Sent> {
        let first_rank = self.seats[gone].ranks.start;
        let open = self.exchanges.iter().filter(|(_, joined)| !joined.given.contains_key(&gone));
        let lost = |(&number, joined): (&u64, &Joined)| {
            let waiting: Vec<SeatId> = joined.given.keys().copied().collect();
            waiting.into_iter().map(move |id| (id, FromHub::Lost { number, first_rank }))
        };
        open.flat_map(lost).collect()
    }

    fn positions(&self) -> FromHub {
        let of = |seat: &Seat| (seat.ranks.start, seat.positions.clone());
        FromHub::Positions(self.seats.iter().map(of).collect())
    }

    /// Seats in the order of their ranks.
    fn in_order(&self) -> Vec<SeatId> {
        let mut ids: Vec<SeatId> = (0..self.seats.len()).collect();
        ids.sort_by_key(|&id| self.seats[id].ranks.start);
        ids
    }

    fn to_all(&self, frame: impl Fn(SeatId) -> FromHub) -> Vec<Sent> {
        let live = (0..self.seats.len()).filter(|&id| !self.seats[id].has_ended);
        live.map(|id| (id, frame(id))).collect()
    }

    fn to_others(&self, from: SeatId, frame: impl Fn(SeatId) -> FromHub) -> Vec<Sent> {
        self.to_all(frame).into_iter().filter(|&(id, _)| id != from).collect()
    }
}

/// The ranks whose processes can report if that of rank 0 cannot: the two behind it, and, since a host may be lost with all of its ranks, the middle one.
pub(in crate::world) fn heirs(world_size: usize) -> BTreeSet<usize> {
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
