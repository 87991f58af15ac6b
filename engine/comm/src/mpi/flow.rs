//! Bytes on their way to or from one other process, in pieces of a size that both ends agree on.
#![allow(unsafe_code, reason = "the bytes are part of a buffer of which other parts are on other ways")]

use std::collections::VecDeque;
use std::slice;

use super::wire::{Message, MpiError, Wire};

/// Pieces that are under way at once: while one ends, the next goes on.
const NUM_UNDER_WAY_MAX: usize = 2;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Send,
    Receive,
}

/// The other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    /// Its rank in the job.
    pub(super) rank: usize,
    /// The tag of the messages, which the sender has chosen.
    pub(super) tag: u16,
}

/// Bytes on their way.
#[derive(Debug)]
pub(super) struct Flow {
    direction: Direction,
    peer: Peer,
    start: *mut u8,
    num_bytes: usize,
    piece_bytes: usize,
    /// Bytes of the pieces that have begun.
    begun_bytes: usize,
    under_way: VecDeque<Message>,
}

impl Flow {
    /// Of these bytes.
    ///
    /// # Safety
    /// Until the flow is [done](Flow::is_done), and if it is dropped before for as long as the process lives, the bytes stay where they are; nobody
    /// writes them, and if they are received nobody reads them.
    pub(super) unsafe fn new(direction: Direction, peer: Peer, bytes: *mut [u8], piece_bytes: usize) -> Self {
        Self {
            direction,
            peer,
            start: bytes.cast(),
            num_bytes: bytes.len(),
            piece_bytes,
            begun_bytes: 0,
            under_way: VecDeque::new(),
        }
    }

    /// Begins and ends messages as far as that goes without waiting; whether any was.
    pub(super) fn advance(&mut self, wire: &Wire) -> Result<bool, MpiError> {
        let mut has_moved = false;
        while let Some(first) = self.under_way.front_mut()
            && wire.done(first)?.is_some()
        {
            self.under_way.pop_front();
            has_moved = true;
        }
        while self.under_way.len() < NUM_UNDER_WAY_MAX && self.begun_bytes < self.num_bytes {
            let num_bytes = self.piece_bytes.min(self.num_bytes - self.begun_bytes);
            let Peer { rank, tag } = self.peer;
            // SAFETY: the piece lies in the bytes of `new`, whose contract holds until the message is done.
            let message = unsafe {
                let start = self.start.add(self.begun_bytes);
                match self.direction {
                    Direction::Send => wire.send(rank, tag, slice::from_raw_parts(start, num_bytes)),
                    Direction::Receive => {
                        wire.receive(Some(rank), tag, slice::from_raw_parts_mut(start, num_bytes))
                    }
                }
            };
            self.under_way.push_back(message?);
            self.begun_bytes += num_bytes;
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Whether a message is under way.
    pub(super) fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether all bytes have been sent or received.
    pub(super) fn is_done(&self) -> bool {
        self.begun_bytes == self.num_bytes && self.under_way.is_empty()
    }
}
