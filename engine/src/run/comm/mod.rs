//! How ranks talk: one trait, one file per backend.
//!
//! A communicator knows buffers and ranks, not stages or units. Every operation is started without blocking and hands
//! its buffers over; [`Pending::wait`] hands them back. The blocking word reduction is the one exception: it ends a
//! step, where every rank waits for every other anyway.
//!
//! Summation order is part of the contract on CPU backends: a reduction adds the members' contributions in ascending
//! rank order, `((r0 + r1) + r2) + ...`, so every backend gives the same bits. An all-reduce is a reduce-scatter by
//! that rule followed by an all-gather.

mod counting;
mod error;
mod exchange;
mod meeting;
mod shaping;
mod threads;

use std::ops::Range;

pub use counting::Counting;
pub use error::CommError;
pub use threads::{ThreadCommunicator, ThreadWorld};

use crate::run::memory::Tagged;

/// World ranks that take part in a collective, ascending; every member names the same ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(Vec<usize>);

impl Group {
    /// A group of these world ranks.
    ///
    /// # Panics
    /// If the ranks are not strictly ascending or there is none; groups are made by the engine, not by users.
    pub fn new(ranks: impl IntoIterator<Item = usize>) -> Self {
        let ranks: Vec<usize> = ranks.into_iter().collect();
        assert!(!ranks.is_empty() && ranks.is_sorted_by(|a, b| a < b), "a group is ascending and not empty");
        Self(ranks)
    }

    /// The members.
    pub fn ranks(&self) -> &[usize] {
        &self.0
    }

    /// Number of members.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The place of a world rank among the members.
    pub fn position(&self, rank: usize) -> Option<usize> {
        self.0.binary_search(&rank).ok()
    }
}

/// A lane that operations of one kind share; operations of one group and lane are matched in the order of their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// All-gathers of weights.
    Gather,
    /// Reductions of gradients.
    Reduce,
    /// The tied weight's gradients.
    Tied,
    /// Words at the end of a step.
    Words,
    /// One directed stage edge, by a number that both ends agree on.
    Edge(u32),
}

/// An operation under way. One that is dropped without a wait still serves the peers; its own buffer is lost.
#[must_use = "an operation ends only when it is waited for"]
pub trait Pending {
    /// Blocks until the operation has ended, at most the communicator's time-out, and returns the buffer.
    ///
    /// # Errors
    /// [`CommError::Timeout`] when the time runs out, [`CommError::TooSlow`] as soon as it is known that it will,
    /// [`CommError::Interrupted`] when another rank failed, [`CommError::Mismatch`] when the members do not agree on what
    /// they do.
    fn wait(self) -> Result<Tagged, CommError>;
}

/// A rank's way to the others, built inside the thread that owns it.
///
/// Every start can fail with [`CommError::Stopped`] once another rank has failed, with [`CommError::NotAMember`] or
/// [`CommError::UnknownRank`] for wrong members, and with [`CommError::Mismatch`] where the peers are at something
/// else; then its buffer is lost.
pub trait Communicator {
    /// The handle of a started operation.
    type Pending: Pending;

    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn world_size(&self) -> usize;

    /// All-gather in place: of the range's `group.size()` equal parts, this rank's is given and all others are filled.
    /// Elements may be of any type, the same on every member; likewise for a transfer.
    ///
    /// * Cost: each rank sends `(d - 1) / d` of the range's bytes.
    /// * Errors: [`CommError::Indivisible`] and [`CommError::OutOfRange`] before any traffic.
    fn start_all_gather(
        &mut self,
        group: &Group,
        buffer: Tagged,
        range: Range<usize>,
    ) -> Result<Self::Pending, CommError>;

    /// Reduce-scatter in place: this rank's part of the range becomes the sum; the other parts are unspecified.
    ///
    /// * Cost: each rank sends `(d - 1) / d` of the range's bytes.
    /// * Errors: [`CommError::NotSummed`] unless the elements are f32, [`CommError::Indivisible`] and
    ///   [`CommError::OutOfRange`], all before any traffic.
    /// * Source: ZeRO, arXiv:1910.02054, section 5 (gradient partitioning).
    fn start_reduce_scatter(
        &mut self,
        group: &Group,
        buffer: Tagged,
        range: Range<usize>,
    ) -> Result<Self::Pending, CommError>;

    /// All-reduce in place: the whole range becomes the sum on every member.
    ///
    /// * Cost: a reduce-scatter and an all-gather.
    /// * Errors: as for a reduce-scatter.
    fn start_all_reduce(
        &mut self,
        group: &Group,
        channel: Channel,
        buffer: Tagged,
        range: Range<usize>,
    ) -> Result<Self::Pending, CommError>;

    /// Sends a buffer; its contents are unspecified when it comes back.
    ///
    /// * Errors: [`CommError::ToItself`] before any traffic; likewise for a receive.
    fn start_send(&mut self, to: usize, edge: u32, buffer: Tagged) -> Result<Self::Pending, CommError>;

    /// Receives into a buffer of the same length and type as the sender's.
    fn start_receive(&mut self, from: usize, edge: u32, buffer: Tagged) -> Result<Self::Pending, CommError>;

    /// Adds words over the group (wrapping), blocking; every member gets the sum.
    fn all_reduce_words(&mut self, group: &Group, words: &mut [u64]) -> Result<(), CommError>;
}

/// The part of `range` that the member at `position` of `size` owns.
///
/// # Errors
/// [`CommError::Indivisible`] if the parts would not be equal.
pub(crate) fn part(range: &Range<usize>, size: usize, position: usize) -> Result<Range<usize>, CommError> {
    if !range.len().is_multiple_of(size) {
        return Err(CommError::Indivisible { num_elements: range.len(), group_size: size });
    }
    let len = range.len() / size;
    let start = range.start + position * len;
    Ok(start..start + len)
}
