//! A call of a library that may take for ever, and that cannot be stopped: it runs on a thread of its own, which is left behind if it takes too long.
//!
//! Each thread that asks has one such thread, kept for its next call: handing a call over takes some ten microseconds. What is left behind goes on until its call
//! or the program ends. Rejected: a process for each tokenizer, which could be killed, but would hold its vocabulary once more.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

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
    fn a_panic_is_that_of_the_caller() {
        let caught = catch_unwind(|| within(9, || crate::catch_panics::catch_panic(|| panic!("at a text"))));
        assert_eq!(caught.unwrap(), Some(None));
    }
}
