//! The parent process: `pipezero launch` itself. If it ends, even by SIGKILL, its processes end after their step, as for a signal.

use std::{env, process, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// The variable with the number of the parent process, `pipezero launch`.
pub(super) const PARENT: &str = "PIPEZERO_PARENT";

/// If `pipezero launch` has started this process: once that has ended, this process gets a SIGTERM.
pub fn end_with_parent() {
    let Some(parent) = env::var(PARENT).ok().and_then(|number| Pid::from_raw(number.parse().ok()?)) else {
        return;
    };
    // If it has ended already, there is nothing to wait for, and mpirun ends its processes.
    let Ok(parent) = pidfd_open(parent, PidfdFlags::empty()) else { return };
    let wait = move || {
        // A signal may interrupt it.
        while poll(&mut [PollFd::new(&parent, PollFlags::IN)], None).is_err() {}
        tracing::warn!("`pipezero launch` has ended: this process ends after its step");
        if let Some(own) = Pid::from_raw(process::id().cast_signed()) {
            let _ = kill_process(own, Signal::TERM);
        }
    };
    if let Err(error) = thread::Builder::new().name("parent".to_owned()).spawn(wait) {
        tracing::warn!(%error, "this process will not notice the end of `pipezero launch`");
    }
}
