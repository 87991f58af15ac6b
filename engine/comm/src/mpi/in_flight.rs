//! An operation in flight: what one rank sends and receives for it.
#![allow(unsafe_code, reason = "messages read and write parts of one buffer at once")]

use std::ops::Range;
use std::time::{Duration, Instant};

use super::announcement::Announcement;
use super::flow::{Direction, Flow, Peer};
use super::order::Order;
use super::reduction::{Reduction, Stagings, piece_elements};
use super::wire::{MESSAGE_BYTES_MAX, MpiError, Wire};
use crate::error::CommError;
use crate::exchange::Payload;
use crate::memory::TrackedBuffer;
use crate::operation::Operation;
use crate::part::part;

/// Bytes of a piece of what is not summed.
const PIECE_BYTES: usize = 4 << 20;
const F32_BYTES: usize = 4;
const WORD_BYTES: usize = size_of::<u64>();

/// An operation in flight. Its memory is freed only when its messages are done.
#[derive(Debug)]
pub(super) struct InFlight {
    order: Order,
    /// `[position]`: the tag of what this rank sends there.
    tags_to: Vec<u16>,
    /// `[position]`: the tag of what comes from there, once its member has announced it.
    tags_from: Vec<Option<u16>>,
    flows: Vec<Flow>,
    stage: Stage,
    /// The others' words, in the order of the members.
    words: Vec<u64>,
    /// When it was first noticed that a member has left.
    left: Option<Instant>,
}

/// What is going on.
#[derive(Debug)]
enum Stage {
    /// This rank's part becomes the sum, and the other parts go to their owners.
    Reducing(Reduction),
    /// Data goes to where it stays.
    Moving,
}

impl InFlight {
    /// Begins what needs no other member: to send.
    pub(super) fn begin(order: Order, tags_to: Vec<u16>) -> Self {
        let (position, size) = (order.position, order.members.len());
        let words = match &order.operation {
            Operation::AddWords { num_words } => vec![0; num_words * (size - 1)],
            _ => Vec::new(),
        };
        let stage = match &order.operation {
            Operation::ReduceScatter { range } | Operation::AllReduce { range } if size > 1 => {
                Stage::Reducing(Reduction::new(equal_part(range, size, position), position, size))
            }
            _ => Stage::Moving,
        };
        let tags_from = vec![None; size];
        let mut in_flight = Self { order, tags_to, tags_from, flows: Vec::new(), stage, words, left: None };
        in_flight.send();
        in_flight
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// A member, by its rank in the job, has announced what it has started.
    ///
    /// # Errors
    /// When it is another operation than this rank's.
    pub(super) fn hear(&mut self, job_rank: usize, announcement: &Announcement) -> Result<(), CommError> {
        let Some(rank) = job_rank.checked_sub(self.order.first) else { return Ok(()) };
        let Some(position) = self.order.members.iter().position(|&member| member == rank) else {
            return Ok(());
        };
        let (own, theirs) = (&self.order.operation, &announcement.operation);
        if own != theirs {
            // Both say that the later of them is wrong.
            let (rank, operation, expected) = if position > self.order.position {
                (rank, theirs, own)
            } else {
                (self.order.members[self.order.position], own, theirs)
            };
            let [operation, expected] = [operation, expected].map(Operation::to_string);
            return Err(CommError::Mismatch { rank, operation, expected });
        }
        self.order.outcome.heard_of(rank);
        self.tags_from[position] = Some(announcement.tag);
        match &mut self.stage {
            Stage::Reducing(reduction) => {
                reduction.hear_of(position, Peer { rank: job_rank, tag: announcement.tag });
            }
            Stage::Moving => self.receive_from(position, announcement.tag),
        }
        Ok(())
    }

    /// Makes all the progress that is possible without waiting. Returns whether there was any.
    pub(super) fn advance(&mut self, wire: &Wire, stagings: &mut Stagings) -> Result<bool, MpiError> {
        let mut has_moved = false;
        for flow in &mut self.flows {
            has_moved |= flow.advance(wire)?;
        }
        if let Stage::Reducing(reduction) = &mut self.stage {
            has_moved |= reduction.advance(wire, elements(&mut self.order.payload), stagings)?;
            // The other parts are received where they are sent from.
            if reduction.is_done() && self.flows.iter().all(Flow::is_done) {
                has_moved = true;
                self.gather_sums();
            }
        }
        Ok(has_moved)
    }

    /// After the reduction: its sums go to all, if the operation asks for that.
    fn gather_sums(&mut self) {
        self.stage = Stage::Moving;
        self.flows.clear();
        if let Operation::AllReduce { .. } = self.order.operation {
            self.send();
            for position in 0..self.tags_from.len() {
                if let Some(tag) = self.tags_from[position] {
                    self.receive_from(position, tag);
                }
            }
        }
    }

    /// Whether this rank needs nothing more, and nobody anything more of it.
    pub(super) fn is_done(&self) -> bool {
        let num_others = self.order.members.len() - 1;
        let num_heard = self.tags_from.iter().flatten().count();
        // Who only sends waits too: it may be that the other end has started something else.
        num_heard == num_others && matches!(self.stage, Stage::Moving) && self.flows.iter().all(Flow::is_done)
    }

    /// Whether all messages that it has started are done.
    pub(super) fn has_no_open_messages(&self) -> bool {
        let is_receiving = matches!(&self.stage, Stage::Reducing(reduction) if reduction.is_receiving());
        !is_receiving && !self.flows.iter().any(Flow::is_under_way)
    }

    /// Gives the rank what it gets.
    pub(super) fn finish(self) {
        let Order { mut payload, outcome, .. } = self.order;
        if let Payload::Words(sums) = &mut payload {
            for (index, word) in self.words.iter().enumerate() {
                let len = sums.len();
                sums[index % len] = sums[index % len].wrapping_add(*word);
            }
        }
        outcome.give(Ok(payload));
    }

    /// Gives the rank an error. If messages are not done, their memory is kept until the process ends.
    pub(super) fn fail(self, error: CommError) {
        self.order.outcome.give(Err(error));
        if !self.has_no_open_messages() {
            std::mem::forget(self);
        }
    }

    /// How long ago it was noticed that a member has left, and whether one left before it had started.
    pub(super) fn left_for(&mut self, has_left: impl Fn(usize) -> bool) -> Option<(Duration, bool)> {
        let others = self.order.members.iter().enumerate().filter(|(index, _)| *index != self.order.position);
        let mut departed = others.map(|(_, &rank)| rank).filter(|&rank| has_left(rank)).peekable();
        departed.peek()?;
        let missing = self.order.outcome.missing();
        let is_missing = departed.any(|rank| missing.contains(&rank));
        Some((self.left.get_or_insert_with(Instant::now).elapsed(), is_missing))
    }

    /// Sends each other member what it gets from this rank now.
    fn send(&mut self) {
        let own = self.order.position;
        for position in (0..self.order.members.len()).filter(|&other| other != own) {
            if let Some((bytes, piece_bytes)) = self.sent_to(position) {
                self.flow(Direction::Send, position, self.tags_to[position], bytes, piece_bytes);
            }
        }
    }

    fn receive_from(&mut self, position: usize, tag: u16) {
        if let Some(bytes) = self.received_from(position) {
            let piece_bytes = self.piece_bytes();
            self.flow(Direction::Receive, position, tag, bytes, piece_bytes);
        }
    }

    fn flow(
        &mut self,
        direction: Direction,
        position: usize,
        tag: u16,
        bytes: *mut [u8],
        piece_bytes: usize,
    ) {
        let peer = Peer { rank: self.order.first + self.order.members[position], tag };
        // SAFETY: the bytes are of the order's payload or of `words`, which stay as they are until all flows are done: `finish` comes after
        // that, and `fail` keeps them. Parts of the payload that are received are not sent at the same time.
        self.flows.push(unsafe { Flow::new(direction, peer, bytes, piece_bytes) });
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES.min(MESSAGE_BYTES_MAX)
    }

    /// What the member at a position gets, and in which pieces.
    fn sent_to(&mut self, position: usize) -> Option<(*mut [u8], usize)> {
        let (size, own) = (self.order.members.len(), self.order.position);
        let is_reducing = matches!(self.stage, Stage::Reducing(_));
        let piece_bytes = self.piece_bytes();
        let (range, piece_bytes) = match &self.order.operation {
            Operation::ReduceScatter { range } | Operation::AllReduce { range } if is_reducing => {
                (equal_part(range, size, position), piece_elements(size) * F32_BYTES)
            }
            Operation::AllReduce { range } | Operation::AllGather { range, .. } => {
                (equal_part(range, size, own), piece_bytes)
            }
            Operation::ReduceScatter { .. } => return None,
            Operation::Transfer { num_elements, .. } if own == 0 => (0..*num_elements, piece_bytes),
            Operation::Transfer { .. } => return None,
            Operation::AddWords { .. } => {
                let Payload::Words(words) = &mut self.order.payload else { return None };
                return Some((bytes_of(words), piece_bytes));
            }
        };
        let bytes = elements(&mut self.order.payload).view_mut().range(range).bytes();
        Some((bytes, piece_bytes))
    }

    /// Where what comes from the member at a position stays.
    fn received_from(&mut self, position: usize) -> Option<*mut [u8]> {
        let (size, own) = (self.order.members.len(), self.order.position);
        let range = match &self.order.operation {
            Operation::AllReduce { range } | Operation::AllGather { range, .. } => {
                equal_part(range, size, position)
            }
            Operation::Transfer { num_elements, .. } if own == 1 => 0..*num_elements,
            Operation::ReduceScatter { .. } | Operation::Transfer { .. } => return None,
            Operation::AddWords { num_words } => {
                let index = if position < own { position } else { position - 1 };
                return Some(bytes_of(&mut self.words[index * num_words..][..*num_words]));
            }
        };
        Some(elements(&mut self.order.payload).view_mut().range(range).bytes())
    }
}

fn bytes_of(words: &mut [u64]) -> *mut [u8] {
    std::ptr::slice_from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * WORD_BYTES)
}

fn equal_part(range: &Range<usize>, size: usize, owner: usize) -> Range<usize> {
    part(range, size, owner).expect("a range that has no equal parts was refused at the start")
}

fn elements(payload: &mut Payload) -> &mut TrackedBuffer {
    match payload {
        Payload::Elements(buffer) => buffer,
        Payload::Words(_) => unreachable!("only an operation on elements reduces, gathers or transfers"),
    }
}
