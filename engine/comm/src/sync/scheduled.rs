//! Threads, locks and channels of the crate `shuttle`, which runs one thread at a time in an order that a test draws, and a clock that runs
//! only when a test lets time pass.
//!
//! The crate has no time: its waits with a time-out never end by it. So alarms are kept here, and whoever lets time pass wakes those whose
//! alarm rings. Rejected: drawing at each wait whether it times out. Then one wait would be late while others that began before it were not,
//! and a wait that nobody ends would be taken for one that ends by its time-out.
//!
//! A channel's `recv_timeout` waits until something comes: what is done from time to time is not done.

pub(crate) use std::sync::mpsc::{RecvTimeoutError, TryRecvError};

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use shuttle::sync::mpsc::{Receiver, Sender, channel};
pub(crate) use shuttle::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use shuttle::thread;

use std::sync::Arc;
use std::time::Duration;

use shuttle::sync::Condvar;

shuttle::lazy_static! {
    /// Made anew for each execution.
    static ref CLOCK: Clock = Clock::default();
}

#[derive(Default)]
struct Clock {
    /// The standard library's lock: no thread is exchanged for another while it is held.
    time: std::sync::Mutex<Time>,
}

#[derive(Default)]
struct Time {
    /// Since the execution began.
    now: Duration,
    num_alarms: u64,
    alarms: Vec<Alarm>,
}

struct Alarm {
    number: u64,
    at: Duration,
    wakes: Arc<dyn Wake>,
}

/// Threads that wait.
trait Wake: Send + Sync {
    fn wake(&self);
}

impl Clock {
    fn time(&self) -> std::sync::MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of an alarm; none where its time has come.
    fn set(&self, at: Duration, wakes: Arc<dyn Wake>) -> Option<u64> {
        let mut time = self.time();
        if time.now >= at {
            return None;
        }
        time.num_alarms += 1;
        let number = time.num_alarms;
        time.alarms.push(Alarm { number, at, wakes });
        Some(number)
    }

    fn cancel(&self, number: u64) {
        self.time().alarms.retain(|alarm| alarm.number != number);
    }
}

/// Lets time pass for all threads, and wakes those that wait no longer.
pub(crate) fn pass(time: Duration) {
    let due: Vec<Alarm> = {
        let mut all = CLOCK.time();
        all.now += time;
        let now = all.now;
        all.alarms.extract_if(.., |alarm| alarm.at <= now).collect()
    };
    due.iter().for_each(|alarm| alarm.wakes.wake());
}

/// A point in time, of the clock that [`pass`] moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(CLOCK.time().now)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    pub(crate) fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// As the one over the standard library's.
#[derive(Debug, Default)]
pub(crate) struct Monitor<T>(Arc<Watched<T>>);

#[derive(Debug, Default)]
struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T: Send> Wake for Watched<T> {
    fn wake(&self) {
        // With the lock held no thread has set its alarm and does not wait yet.
        let _value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}

impl<T: Send + 'static> Monitor<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Watched { value: Mutex::new(value), changed: Condvar::new() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(
        &'a self,
        value: MutexGuard<'a, T>,
        since: Instant,
        time: Duration,
    ) -> MutexGuard<'a, T> {
        let Some(alarm) = CLOCK.set(since.0.saturating_add(time), Arc::clone(&self.0) as Arc<dyn Wake>)
        else {
            // Others may have the value for a moment, so that who waits again and again for no time is found too.
            drop(value);
            return self.lock();
        };
        let value = self.0.changed.wait(value).unwrap_or_else(PoisonError::into_inner);
        CLOCK.cancel(alarm);
        value
    }

    pub(crate) fn notify_all(&self) {
        self.0.changed.notify_all();
    }
}
