//! A device of the host for tests, on which every kernel runs later than it was asked for.
//!
//! Its queues run in a random order that only events bound, so a result that depends on an event that nobody waits for is wrong on
//! some seed. What nobody should read any more is overwritten with NaN. And a kernel panics that uses elements which another queue used
//! before, without an event between them, whether or not the order was right this time. One scheduler runs one kernel at a time: a
//! forgotten event is found, and never a race.
//!
//! It is for tests. The host may read a buffer's elements after a download alone, which a panic ensures.

mod hazards;
mod kernels;
mod queue;
mod scheduler;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use queue::DeferredQueue;
use scheduler::Scheduler;

use super::device::next_device_number;
use super::{Device, Queue};
use crate::error::ModelError;

/// A device whose queues are run in a random order.
#[derive(Clone)]
pub struct Deferred {
    /// Its number among the devices of the process.
    id: u64,
    scheduler: Arc<Mutex<Scheduler>>,
    /// How far the clock of the queues that are made from here is ahead of the scheduler's.
    ahead_ns: u64,
}

impl Deferred {
    /// A device whose order follows from a seed and from the order in which it is asked.
    pub fn new(seed: u64) -> Self {
        Self { id: next_device_number(), scheduler: Arc::new(Mutex::new(Scheduler::new(seed))), ahead_ns: 0 }
    }

    /// As [`Deferred::new`], and waits for `what` are left out, which is a mistake to be found.
    pub fn without(seed: u64, what: &'static str) -> Self {
        let device = Self::new(seed);
        device.lock().omitted = Some(what);
        device
    }

    /// The same device, read by a clock that is ahead by this much, as another process would.
    pub fn ahead_by(&self, ahead_ns: u64) -> Self {
        Self { ahead_ns, ..self.clone() }
    }

    /// What its queues have waited for.
    pub fn waited_for(&self) -> Vec<&'static str> {
        self.lock().waited_for.iter().copied().collect()
    }

    /// The panic of a kernel. What it was to write is lost; everything behind it can still be run.
    fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    /// # Panics
    /// Inside a kernel, which would wait for itself.
    fn lock(&self) -> MutexGuard<'_, Scheduler> {
        assert!(!scheduler::is_in_kernel(), "a kernel must not ask a queue for anything");
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").finish_non_exhaustive()
    }
}

impl Device for Deferred {
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError> {
        let number = self.lock().open();
        Ok(Arc::new(DeferredQueue { device: self.clone(), number }))
    }
}
