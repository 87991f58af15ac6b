//! Ranks as threads that `shuttle` runs, with buffers of a few elements.
#![allow(clippy::unwrap_used, reason = "an unwrap that fails is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use pipezero_config::Links;
use pipezero_models::{Device, Host, Queue};

use super::{Communicator, Threads};
use crate::memory::{Allocator, Category, Ledger, TrackedBuffer};
use crate::sync::testing::pass;
use crate::sync::{AtomicBool, Ordering, thread};

/// So many ranks on the host, with or without emulated links.
pub fn ranks(size: usize, timeout: Duration, links: Option<Links>) -> Threads {
    Threads::on((0..size).map(|_| Arc::new(Host) as Arc<dyn Device>).collect(), timeout, links)
}

/// What the body gives on each rank, every one a thread.
pub fn on_every_rank<R: Send + 'static>(
    threads: &Threads,
    body: impl Fn(Box<dyn Communicator>) -> R + Clone + Send + 'static,
) -> Vec<R> {
    let spawned: Vec<_> = (0..threads.size())
        .map(|rank| {
            let (threads, body) = (threads.clone(), body.clone());
            thread::spawn(move || body(threads.communicator(rank).unwrap()))
        })
        .collect();
    spawned.into_iter().map(|rank| rank.join().unwrap()).collect()
}

/// Lets time pass, a step after the other, until the body has ended.
pub fn while_time_passes<R>(step: Duration, body: impl FnOnce() -> R) -> R {
    let has_ended = Arc::new(AtomicBool::new(false));
    let clock = {
        let has_ended = Arc::clone(&has_ended);
        thread::spawn(move || {
            while !has_ended.load(Ordering::Acquire) {
                pass(step);
                thread::yield_now();
            }
        })
    };
    let given = body();
    has_ended.store(true, Ordering::Release);
    clock.join().unwrap();
    given
}

/// A buffer with these values.
///
/// # Panics
/// If there is no memory for it.
pub fn buffer(values: &[f32]) -> TrackedBuffer {
    let memory = Allocator::new(Arc::new(Host), Arc::new(Ledger::default()));
    let mut buffer = memory.zeros(values.len(), Category::Communication).unwrap();
    Host.upload_floats(values, buffer.view_mut());
    buffer
}

/// The values of a buffer.
///
/// # Panics
/// If they cannot be read.
pub fn values(buffer: &TrackedBuffer) -> Vec<f32> {
    let mut values = vec![0.0; buffer.len()];
    Host.download_floats(buffer.view(), &mut values).unwrap();
    values
}
