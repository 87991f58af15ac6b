//! How the owner of a part gets its sum: the others' parts come in pieces, and each piece is added in ascending order of the members.
//!
//! Two pieces of each member are held at once, one that comes while the other waits for those of the other members: memory that is no line
//! of the plan, [`STAGING_BYTES`] for each reduction under way at most but for groups of more than 257, kept for the next.
#![allow(unsafe_code, reason = "pieces arrive beside each other in one buffer")]

use std::collections::VecDeque;
use std::ops::Range;

use pipezero_models::{Buffer, ElementType, Host, ModelError, Queue};

use super::flow::Peer;
use super::wire::{Message, MpiError, Wire};
use crate::run::memory::TrackedBuffer;

/// Bytes of the pieces that are held at once, of all members together.
const STAGING_BYTES: usize = 8 << 20;
const PIECE_BYTES_MIN: usize = 16 << 10;
const PIECE_BYTES_MAX: usize = 1 << 20;
/// Pieces of a member that are held at once.
const NUM_SLOTS: usize = 2;
const F32_BYTES: usize = ElementType::F32.num_bytes();

/// Elements of a piece in a group of so many members, the same on all of them.
pub(super) fn piece_elements(group_size: usize) -> usize {
    let of_each = STAGING_BYTES / (NUM_SLOTS * (group_size - 1).max(1));
    of_each.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX) / F32_BYTES
}

/// Buffers for pieces, kept from one reduction to the next.
#[derive(Debug, Default)]
pub(super) struct Stagings(Vec<Buffer>);

impl Stagings {
    fn take(&mut self, num_elements: usize) -> Result<Buffer, ModelError> {
        match self.0.iter().position(|staging| staging.len() >= num_elements) {
            Some(found) => Ok(self.0.swap_remove(found)),
            None => Host.zeros(num_elements, ElementType::F32),
        }
    }

    /// One whose messages are done.
    pub(super) fn give_back(&mut self, staging: Buffer) {
        self.0.push(staging);
    }
}

/// A part on its way to being the sum.
#[derive(Debug)]
pub(super) struct Reduction {
    /// Elements of the rank's buffer that become the sum.
    part: Range<usize>,
    piece: usize,
    staging: Buffer,
    others: Vec<Other>,
    num_summed: usize,
}

/// What comes from another member.
#[derive(Debug)]
struct Other {
    /// Whether it is before this rank.
    is_before: bool,
    peer: Option<Peer>,
    num_begun: usize,
    num_arrived: usize,
    under_way: VecDeque<Message>,
}

impl Reduction {
    /// Of this part of the buffer of the member at `position`, in a group of so many.
    pub(super) fn new(
        part: Range<usize>,
        position: usize,
        group_size: usize,
        stagings: &mut Stagings,
    ) -> Result<Self, ModelError> {
        let piece = piece_elements(group_size);
        let others = (0..group_size).filter(|&other| other != position).map(|other| Other {
            is_before: other < position,
            peer: None,
            num_begun: 0,
            num_arrived: 0,
            under_way: VecDeque::new(),
        });
        let staging = stagings.take((group_size - 1) * NUM_SLOTS * piece)?;
        Ok(Self { part, piece, staging, others: others.collect(), num_summed: 0 })
    }

    /// Where the pieces of a member come from.
    pub(super) fn hear_of(&mut self, position: usize, peer: Peer) {
        let num_before = self.others.iter().filter(|other| other.is_before).count();
        let index = if position < num_before { position } else { position - 1 };
        self.others[index].peer = Some(peer);
    }

    fn num_pieces(&self) -> usize {
        self.part.len().div_ceil(self.piece)
    }

    fn piece_len(&self, number: usize) -> usize {
        self.piece.min(self.part.len() - number * self.piece)
    }

    /// Elements of the staging that hold a piece of a member.
    fn slot(&self, other: usize, number: usize) -> Range<usize> {
        let start = (other * NUM_SLOTS + number % NUM_SLOTS) * self.piece;
        start..start + self.piece_len(number)
    }

    /// Receives and adds as far as that goes without waiting; whether anything was.
    pub(super) fn advance(&mut self, wire: &Wire, buffer: &mut TrackedBuffer) -> Result<bool, MpiError> {
        let mut has_moved = false;
        for index in 0..self.others.len() {
            has_moved |= self.receive(wire, index)?;
        }
        while self.num_summed < self.num_pieces()
            && self.others.iter().all(|other| other.num_arrived > self.num_summed)
        {
            self.add(buffer);
            self.num_summed += 1;
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn receive(&mut self, wire: &Wire, index: usize) -> Result<bool, MpiError> {
        let (num_pieces, num_summed) = (self.num_pieces(), self.num_summed);
        let mut has_moved = false;
        let other = &mut self.others[index];
        while let Some(first) = other.under_way.front_mut()
            && wire.done(first)?.is_some()
        {
            other.under_way.pop_front();
            other.num_arrived += 1;
            has_moved = true;
        }
        let Some(Peer { rank, tag }) = other.peer else { return Ok(has_moved) };
        while self.others[index].num_begun < num_pieces.min(num_summed + NUM_SLOTS) {
            let slot = self.slot(index, self.others[index].num_begun);
            let bytes = self.staging.view_mut().range(slot).bytes();
            // SAFETY: the slot is read only once the message is done, and the staging is kept until then.
            let message = unsafe { wire.receive(Some(rank), tag, bytes) }?;
            self.others[index].under_way.push_back(message);
            self.others[index].num_begun += 1;
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn add(&self, buffer: &mut TrackedBuffer) {
        let number = self.num_summed;
        let terms = |is_before: bool| -> Vec<_> {
            let others = self.others.iter().enumerate().filter(|(_, other)| other.is_before == is_before);
            others.map(|(index, _)| self.staging.view().range(self.slot(index, number))).collect()
        };
        let start = self.part.start + number * self.piece;
        let own = buffer.view_mut().range(start..start + self.piece_len(number));
        Host.sum_in_order(&terms(true), own, &terms(false));
    }

    /// Whether a piece is on its way here.
    pub(super) fn is_receiving(&self) -> bool {
        self.others.iter().any(|other| !other.under_way.is_empty())
    }

    /// Whether the part is the sum.
    pub(super) fn is_done(&self) -> bool {
        self.num_summed == self.num_pieces()
    }

    /// The staging, for another reduction.
    pub(super) fn into_staging(self) -> Buffer {
        self.staging
    }
}
