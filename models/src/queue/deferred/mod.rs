//! A device of the host for tests, on which every kernel runs later than it was asked for.
//!
//! Its queues run in a random order that only events bound, so a result that depends on an event that nobody waits for is wrong on
//! some seed. What nobody should read any more is overwritten with NaN. And a kernel panics that uses elements which another queue used
//! before, without an event between them, whether or not the order was right this time. One scheduler runs one kernel at a time: a
//! forgotten event is found, and never a race.
//!
//! It is for tests alone: elements of its buffers may be read on the host only after a download, which nothing but care ensures.

#![allow(unsafe_code, reason = "kernels run after the borrows that they were asked for with have ended")]

mod hazards;
mod kernels;
mod scheduler;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hazards::Use;
use scheduler::{Scheduler, Task};

use super::{Device, Queue};
use crate::memory::{Retained, View, ViewMut};

/// A device whose queues are run in a random order.
#[derive(Clone)]
pub struct Deferred {
    scheduler: Arc<Mutex<Scheduler>>,
    /// How far the clock of the queues that are made from here is ahead of the scheduler's.
    ahead_ns: u64,
}

impl Deferred {
    /// A device whose order follows from a seed and from the order in which it is asked.
    pub fn new(seed: u64) -> Self {
        Self { scheduler: Arc::new(Mutex::new(Scheduler::new(seed))), ahead_ns: 0 }
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

    /// A kernel that panicked has left the queues as they were before it.
    fn lock(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferred").finish_non_exhaustive()
    }
}

impl Device for Deferred {
    fn queue(&self) -> Arc<dyn Queue> {
        let number = self.lock().open();
        Arc::new(DeferredQueue { device: self.clone(), number })
    }
}

/// A queue of [`Deferred`].
#[derive(Debug)]
pub struct DeferredQueue {
    device: Deferred,
    number: usize,
}

impl DeferredQueue {
    /// Asks for a kernel that reads and writes these elements.
    fn ask<const R: usize, const W: usize>(
        &self,
        reads: [View<'_>; R],
        writes: [ViewMut<'_>; W],
        kernel: impl for<'a> FnOnce([View<'a>; R], [ViewMut<'a>; W]) + Send + 'static,
    ) {
        let (reads, writes) = (reads.map(View::retained), writes.map(ViewMut::retained));
        self.push(uses(&reads, &writes), move || {
            // SAFETY: as in `ask_many`.
            let views =
                unsafe { (reads.each_ref().map(|of| of.view()), writes.each_ref().map(|of| of.view_mut())) };
            kernel(views.0, views.1);
        });
    }

    /// As [`DeferredQueue::ask`], for any number of them.
    fn ask_many(
        &self,
        reads: &[View<'_>],
        writes: Vec<ViewMut<'_>>,
        kernel: impl for<'a> FnOnce(&[View<'a>], Vec<ViewMut<'a>>) + Send + 'static,
    ) {
        let reads: Vec<Retained> = reads.iter().map(|view| view.retained()).collect();
        let writes: Vec<Retained> = writes.into_iter().map(ViewMut::retained).collect();
        self.push(uses(&reads, &writes), move || {
            // SAFETY: one kernel runs at a time, under the scheduler's lock. The views that it was asked for with were apart where
            // it writes, so these are too. The host reads and writes elements only where no queue has anything left to do with them.
            let (reads, writes): (Vec<View<'_>>, _) = unsafe {
                (reads.iter().map(|of| of.view()).collect(), writes.iter().map(|of| of.view_mut()).collect())
            };
            kernel(&reads, writes);
        });
    }

    fn push(&self, uses: Vec<Use>, kernel: impl FnOnce() + Send + 'static) {
        self.device.lock().push(self.number, Task::Kernel(Box::new(kernel), uses));
    }

    /// Returns once everything that was asked for has been computed.
    fn finish(&self) {
        self.device.lock().finish(self.number);
    }
}

/// What a kernel uses.
fn uses(reads: &[Retained], writes: &[Retained]) -> Vec<Use> {
    let of = |elements: &[Retained], writes| -> Vec<Use> {
        elements.iter().map(|elements| Use { elements: elements.clone(), writes }).collect()
    };
    [of(reads, false), of(writes, true)].into_iter().flatten().collect()
}
