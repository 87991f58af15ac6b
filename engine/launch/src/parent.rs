//! The parent process: `pipezero launch` itself. If it ends, even by SIGKILL, its processes end too: after their step, as for a signal, once there are steps.

use std::{env, process, thread};

use pipezero_files::host::job_files;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// The variable with the number of the parent process, `pipezero launch`.
pub(super) const PARENT: &str = "PIPEZERO_PARENT";

/// If `pipezero launch` has started this process: once that has ended, this process gets a SIGTERM, or is ended at once if the processes of the job
/// are not connected, since then there is no step to end.
pub fn end_with_parent() {
    let Some(parent) = env::var(PARENT).ok().and_then(|number| Pid::from_raw(number.parse().ok()?)) else {
        return;
    };
    let parent = match pidfd_open(parent, PidfdFlags::empty()) {
        Ok(parent) => parent,
        // It has ended before this process began.
        Err(Errno::SRCH) => return signal_own(Signal::KILL),
        Err(error) => {
            return tracing::warn!(%error, "this process will not notice the end of `pipezero launch`");
        }
    };
    let wait = move || {
        // A signal may interrupt it.
        while poll(&mut [PollFd::new(&parent, PollFlags::IN)], None).is_err() {}
        if !job_files::are_connected() {
            return signal_own(Signal::KILL);
        }
        tracing::warn!("`pipezero launch` has ended: this process ends after its step");
        signal_own(Signal::TERM);
    };
    if let Err(error) = thread::Builder::new().name("parent".to_owned()).spawn(wait) {
        tracing::warn!(%error, "this process will not notice the end of `pipezero launch`");
    }
}

fn signal_own(signal: Signal) {
    if let Some(own) = Pid::from_raw(process::id().cast_signed()) {
        let _ = kill_process(own, signal);
    }
}
