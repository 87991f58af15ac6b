//! Calls into a library that panics where it should return an error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether this thread is in such a call.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// The result of `call`, or `None` where it panics, of which nothing is printed.
pub(super) fn unless_it_panics<T>(call: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                others(panic);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_QUIET.set(false);
    result.ok()
}
