//! Connections that have not greeted yet, of which there is a bounded number, and those that are dropped because they cannot.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::sync::{AtomicUsize, Instant, Monitor, Ordering};

/// How many of the dropped connections are logged one by one.
const LOGGED_MAX: usize = 10;
/// How long it takes at most until connections that were cut have ended.
const TIME_TO_END: Duration = Duration::from_secs(1);
/// How long to wait before the connections are counted again.
const STEP: Duration = Duration::from_millis(10);

/// The connections that are greeting, the oldest first.
#[derive(Debug)]
pub(super) struct Greeters {
    max: usize,
    open: Monitor<Open>,
    num_dropped: AtomicUsize,
}

#[derive(Debug, Default)]
struct Open {
    num_so_far: u64,
    streams: VecDeque<(u64, Arc<TcpStream>)>,
}

impl Greeters {
    /// `max` connections may greet at once.
    pub(super) fn new(max: usize) -> Self {
        Self { max, open: Monitor::new(Open::default()), num_dropped: AtomicUsize::new(0) }
    }

    /// Adds a connection, and returns its number. If there are as many as there may be, the oldest is cut first: a process of the job greets within
    /// milliseconds, and connects again if it is cut.
    pub(super) fn add(&self, stream: &Arc<TcpStream>) -> u64 {
        let mut open = self.open.lock();
        while open.streams.len() >= self.max {
            open.streams.front().into_iter().for_each(|(_, oldest)| cut(oldest));
            open = self.open.wait(open, Instant::now(), STEP);
        }
        open.num_so_far += 1;
        let number = open.num_so_far;
        open.streams.push_back((number, Arc::clone(stream)));
        number
    }

    /// A connection has greeted, or is dropped. From now on it is not cut any more.
    pub(super) fn remove(&self, number: u64) {
        self.open.lock().streams.retain(|(other, _)| *other != number);
        self.open.notify_all();
    }

    /// Cuts all of them: nobody is waited for any more.
    pub(super) fn close(&self) {
        let start = Instant::now();
        let mut open = self.open.lock();
        open.streams.iter().for_each(|(_, stream)| cut(stream));
        while !open.streams.is_empty() && start.elapsed() < TIME_TO_END {
            open = self.open.wait(open, start, TIME_TO_END);
        }
        drop(open);
        let num_more = self.num_dropped().saturating_sub(LOGGED_MAX);
        if num_more > 0 {
            tracing::warn!("dropped {num_more} more connections");
        }
    }

    /// Logs that a connection is dropped, and why.
    pub(super) fn log_dropped(&self, from: SocketAddr, error: &io::Error) {
        if self.num_dropped.fetch_add(1, Ordering::AcqRel) < LOGGED_MAX {
            tracing::warn!(%from, %error, "dropped a connection");
        }
    }

    /// How many connections were dropped.
    pub(super) fn num_dropped(&self) -> usize {
        self.num_dropped.load(Ordering::Acquire)
    }
}

fn cut(stream: &TcpStream) {
    // It fails if the other end has closed it.
    let _ = stream.shutdown(Shutdown::Both);
}
