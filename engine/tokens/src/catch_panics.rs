//! Catches panics of a library that should return errors, and prints nothing of them.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether this thread is in such a call, whose panics are not printed.
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// The result of `call`, or `None` if it panics. Nothing is printed of the panic.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_CATCHING.get() {
                others(panic);
            }
        }));
    });
    IS_CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CATCHING.set(false);
    result.ok()
}
