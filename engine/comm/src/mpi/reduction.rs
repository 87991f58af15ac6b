//! How the owner of a part gets its sum: the others' parts come in pieces, and each piece is added in ascending order of the members.
//!
//! Two pieces of each member are held at once, one that comes while the other waits for those of the other members: memory that is no line
//! of the plan, [`NUM_STAGINGS`] times [`STAGING_BYTES`] at most but for groups of more than 257.
#![allow(unsafe_code, reason = "pieces arrive beside each other in one buffer")]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pipezero_models::{Buffer, ElementType, Host, ModelError, Queue};

use super::flow::Peer;
use super::wire::{Message, MpiError, Wire};
use crate::memory::TrackedBuffer;

/// Bytes of the pieces that are held at once, of all members together.
const STAGING_BYTES: usize = 8 << 20;
/// Reductions that receive at once: the next begins before the last has all of its last pieces.
const NUM_STAGINGS: usize = 2;
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

/// Buffers for pieces, kept from one reduction to the next: [`NUM_STAGINGS`], however many reductions are under way.
///
/// None waits for another for ever: one that has a staging is one that all members have begun, so its pieces come, whatever else they do.
#[derive(Debug, Default)]
pub(super) struct Stagings {
    free: Vec<Buffer>,
    /// Each staging that is lent has a copy of it.
    lent: Arc<()>,
}

/// One that is lent.
#[derive(Debug)]
struct Staging {
    buffer: Buffer,
    _lent: Arc<()>,
}

impl Stagings {
    /// One of at least so many elements; `None` while all are lent. All there can be are made at once, so that none is made later.
    fn take(&mut self, num_elements: usize) -> Result<Option<Staging>, ModelError> {
        let num_lent = Arc::strong_count(&self.lent) - 1;
        self.free.retain(|buffer| buffer.len() >= num_elements);
        while self.free.len() + num_lent < NUM_STAGINGS {
            self.free.push(Host.zeros(num_elements, ElementType::F32)?);
        }
        let lent = || Arc::clone(&self.lent);
        Ok(self.free.pop().map(|buffer| Staging { buffer, _lent: lent() }))
    }

    fn give_back(&mut self, staging: Staging) {
        self.free.push(staging.buffer);
    }
}

/// A part on its way to being the sum.
#[derive(Debug)]
pub(super) struct Reduction {
    /// Elements of the rank's buffer that become the sum.
    part: Range<usize>,
    piece: usize,
    /// As long as pieces are received.
    staging: Option<Staging>,
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
    pub(super) fn new(part: Range<usize>, position: usize, group_size: usize) -> Self {
        let others = (0..group_size).filter(|&other| other != position).map(|other| Other {
            is_before: other < position,
            peer: None,
            num_begun: 0,
            num_arrived: 0,
            under_way: VecDeque::new(),
        });
        let piece = piece_elements(group_size);
        Self { part, piece, staging: None, others: others.collect(), num_summed: 0 }
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
    pub(super) fn advance(
        &mut self,
        wire: &Wire,
        buffer: &mut TrackedBuffer,
        stagings: &mut Stagings,
    ) -> Result<bool, MpiError> {
        if self.is_done() || self.others.iter().any(|other| other.peer.is_none()) {
            return Ok(false);
        }
        if self.staging.is_none() {
            let staging = stagings.take(self.others.len() * NUM_SLOTS * self.piece);
            self.staging = staging.map_err(|error| MpiError::Memory(error.to_string()))?;
        }
        let Some(mut staging) = self.staging.take() else { return Ok(false) };
        let has_moved = self.advance_with(wire, buffer, &mut staging.buffer);
        match self.is_done() {
            true => stagings.give_back(staging),
            false => self.staging = Some(staging),
        }
        has_moved
    }

    fn advance_with(
        &mut self,
        wire: &Wire,
        buffer: &mut TrackedBuffer,
        staging: &mut Buffer,
    ) -> Result<bool, MpiError> {
        let mut has_moved = false;
        for index in 0..self.others.len() {
            has_moved |= self.receive(wire, staging, index)?;
        }
        while self.num_summed < self.num_pieces()
            && self.others.iter().all(|other| other.num_arrived > self.num_summed)
        {
            self.add(buffer, staging);
            self.num_summed += 1;
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn receive(&mut self, wire: &Wire, staging: &mut Buffer, index: usize) -> Result<bool, MpiError> {
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
            let bytes = staging.view_mut().range(slot).bytes();
            // SAFETY: the slot is read only once the message is done, and the staging is kept until then.
            let message = unsafe { wire.receive(Some(rank), tag, bytes) }?;
            self.others[index].under_way.push_back(message);
            self.others[index].num_begun += 1;
            has_moved = true;
        }
        Ok(has_moved)
    }

    fn add(&self, buffer: &mut TrackedBuffer, staging: &Buffer) {
        let number = self.num_summed;
        let terms = |is_before: bool| -> Vec<_> {
            let others = self.others.iter().enumerate().filter(|(_, other)| other.is_before == is_before);
            others.map(|(index, _)| staging.view().range(self.slot(index, number))).collect()
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
}
