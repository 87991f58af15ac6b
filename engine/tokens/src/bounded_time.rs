//! A call of a library that may take for ever, and that cannot be stopped: it runs on a thread of its own, which is left behind if it takes too long.
//!
//! Each thread that asks has one such thread, kept for its next call: handing a call over takes some ten microseconds. What is left behind goes on until its call
//! or the program ends. Rejected: a process for each tokenizer, which could be killed, but would hold its vocabulary once more.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

type Call = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The sender of calls to this thread's helper, once it has one.
    static HELPER: RefCell<Option<Sender<Call>>> = const { RefCell::new(None) };
}

/// The result of a call; `None` if it takes more than so many seconds.
///
/// # Panics
/// If the call does.
pub(super) fn within<T: Send + 'static>(
    seconds: u64,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    // There may be no more threads: without a bound it still computes the same.
    let Some(calls) = HELPER.take().or_else(start) else { return Some(call()) };
    let (sender, results) = channel();
    let run = move || {
        // Nobody waits for it any more if it took too long.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(call)));
    };
    calls.send(Box::new(run)).expect("the thread takes calls as long as they can be sent");
    // Second by second: a process that was suspended meanwhile loses one of them, and not all.
    for _ in 0..seconds.max(1) {
        match results.recv_timeout(Duration::from_secs(1)) {
            Ok(result) => {
                HELPER.set(Some(calls));
                return Some(result.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("every call sends its result"),
        }
    }
    None
}

/// The time that many calls take together. A text of a thousand tokens needs thousands of calls, so calls that are each fast enough may still take too long.
#[derive(Debug, Default)]
pub(super) struct TimeOfCalls {
    num_calls: AtomicU64,
    micros: AtomicU64,
}

impl TimeOfCalls {
    /// Microseconds that each call may take on average: a hundred times as many as those of published tokenizers.
    const OF_CALL: u64 = 5_000;

    /// The result of a call; `None` if all calls together have taken more than this number of seconds and the time for each call.
    pub(super) fn add<T>(&self, seconds: u64, call: impl FnOnce() -> Option<T>) -> Option<T> {
        let began = Instant::now();
        let result = call();
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let micros = self.micros.fetch_add(took, Ordering::Relaxed).saturating_add(took);
        let num_calls = self.num_calls.fetch_add(1, Ordering::Relaxed) + 1;
        let may = seconds.saturating_mul(1_000_000).saturating_add(num_calls.saturating_mul(Self::OF_CALL));
        result.filter(|_| micros <= may)
    }
}

fn start() -> Option<Sender<Call>> {
    let (calls, taken) = channel::<Call>();
    let work = move || taken.into_iter().for_each(|call| call());
    thread::Builder::new().name("tokenizer".to_owned()).spawn(work).ok().map(|_| calls)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_call_that_takes_too_long_is_left_behind() {
        assert_eq!(within(9, || 7), Some(7));
        let (end, ended) = channel::<()>();
        let ended = std::sync::Mutex::new(ended);
        assert_eq!(within(1, move || ended.lock().unwrap().recv().is_ok()), None);
        // The next has a thread of its own.
        let first = within(9, || thread::current().id());
        assert!(first.is_some() && first == within(9, || thread::current().id()));
        drop(end);
    }

    #[test]
    fn calls_that_take_long_together_are_refused() {
        let calls = TimeOfCalls::default();
        assert_eq!(calls.add(1, || Some(7)), Some(7));
        calls.micros.store(900_000, Ordering::Relaxed);
        assert_eq!(calls.add(1, || Some(7)), Some(7));
        calls.micros.store(2_000_000, Ordering::Relaxed);
        assert_eq!(calls.add(1, || Some(7)), None);
        // As long, of more calls.
        calls.num_calls.store(1000, Ordering::Relaxed);
        assert_eq!(calls.add(1, || Some(7)), Some(7));
    }

    #[test]
    fn a_panic_is_that_of_the_caller() {
        let caught = catch_unwind(|| within(9, || crate::catch_panics::catch_panic(|| panic!("at a text"))));
        assert_eq!(caught.unwrap(), Some(None));
    }
}
