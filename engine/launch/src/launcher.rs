//! The end of `pipezero launch` itself, by a SIGKILL too: its processes then end after their step, as for a signal.

use std::{env, process, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// The variable by which a process knows who has launched it, by its number.
pub(super) const LAUNCHER: &str = "PIPEZERO_LAUNCHER";

/// Where `pipezero launch` has started this process: once that is gone, this one gets a SIGTERM.
pub fn end_with_launcher() {
    let Some(launcher) = env::var(LAUNCHER).ok().and_then(|number| Pid::from_raw(number.parse().ok()?))
    else {
        return;
    };
    // Where it has ended already, there is nothing to wait for, and mpirun ends its processes.
    let Ok(launcher) = pidfd_open(launcher, PidfdFlags::empty()) else { return };
    let wait = move || {
        // A signal may interrupt it.
        while poll(&mut [PollFd::new(&launcher, PollFlags::IN)], None).is_err() {}
        tracing::warn!("`pipezero launch` is gone: this process ends after its step");
        if let Some(own) = Pid::from_raw(process::id().cast_signed()) {
            let _ = kill_process(own, Signal::TERM);
        }
    };
    if let Err(error) = thread::Builder::new().name("launcher".to_owned()).spawn(wait) {
        tracing::warn!(%error, "this process will not notice the end of `pipezero launch`");
    }
}
