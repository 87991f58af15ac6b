//! Points in queues, by which one queue waits for another.

use std::num::NonZeroU64;

/// A point in a queue: it is reached once everything that the queue was asked before has been computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its number on its device; none where it was reached at once.
    pub(super) number: Option<NonZeroU64>,
}

impl Event {
    /// A point that was reached already.
    pub const REACHED: Self = Self { number: None };
}
