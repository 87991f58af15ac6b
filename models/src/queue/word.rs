//! A word that a queue stores as it comes to a point, for the host to read at any time.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// Made by [`Queue::word`](super::Queue::word); 0 at first.
#[derive(Debug)]
pub struct Word(Place);

#[derive(Debug)]
enum Place {
    Host(AtomicU64),
    /// In memory of the host that a device reaches.
    Shared(Box<dyn SharedWord>),
}

/// A word in memory of the host that a device reaches, given back when it is dropped.
pub(super) trait SharedWord: Debug + Send + Sync {
    /// The word, as the host reaches it.
    fn here(&self) -> &AtomicU64;

    /// Where it is, as the device counts.
    fn address(&self) -> u64;
}

impl Word {
    /// One that the host alone stores.
    pub(super) fn of_host() -> Self {
        Self(Place::Host(AtomicU64::new(0)))
    }

    /// One that a device stores.
    pub(super) fn shared(word: Box<dyn SharedWord>) -> Self {
        Self(Place::Shared(word))
    }

    /// What was stored last.
    pub fn load(&self) -> u64 {
        self.here().load(Ordering::Acquire)
    }

    /// Stores a value from the host.
    pub(super) fn store(&self, value: u64) {
        self.here().store(value, Ordering::Release);
    }

    /// Where the device finds it; `None` where none does.
    pub(super) fn address(&self) -> Option<u64> {
        match &self.0 {
            Place::Host(_) => None,
            Place::Shared(word) => Some(word.address()),
        }
    }

    fn here(&self) -> &AtomicU64 {
        match &self.0 {
            Place::Host(word) => word,
            Place::Shared(word) => word.here(),
        }
    }
}
