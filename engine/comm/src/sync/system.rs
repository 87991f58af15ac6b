//! Threads, locks, channels and clocks of the standard library.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;

use std::sync::Condvar;
use std::time::Duration;

/// A value behind a lock, with threads that wait until others have changed it.
///
/// What a thread that panicked has left there is what the others find: whoever uses one changes its value at once, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    /// With this value.
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new() }
    }

    /// The value, for this thread alone.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the value to others until one of them wakes those that wait, or until this time after `since`. It may return before, so the
    /// caller looks again.
    pub(crate) fn wait<'a>(
        &'a self,
        value: MutexGuard<'a, T>,
        since: Instant,
        time: Duration,
    ) -> MutexGuard<'a, T> {
        let left = time.saturating_sub(since.elapsed());
        self.changed.wait_timeout(value, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes all that wait.
    pub(crate) fn notify_all(&self) {
        self.changed.notify_all();
    }
}
