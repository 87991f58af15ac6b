//! The parent process: `pipezero launch` itself. If it ends, even by SIGKILL, its processes end too: after their step, as for a signal, once there are steps.

use std::{env, fs, process, thread};

use pipezero_files::host::job_files;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open};

/// The variable with the number of the parent process, `pipezero launch`.
pub(super) const PARENT: &str = "PIPEZERO_PARENT";

/// The program that starts the processes of MPI, by its name in the list of processes: Open MPI 5 has another one behind `mpirun`.
const MPIRUN: [&str; 3] = ["mpirun", "orterun", "prterun"];

/// If `pipezero launch` has started this process: once that has ended, this process gets a SIGTERM, or is ended at once if the processes of the job
/// are not connected, since then there is no step to end.
pub fn end_with_parent() {
    let Some(parent) = env::var(PARENT).ok().and_then(|number| Pid::from_raw(number.parse().ok()?)) else {
        return;
    };
    let parent = match pidfd_open(parent, PidfdFlags::empty()) {
        Ok(parent) => parent,
        // It has ended before this process began.
        Err(Errno::SRCH) => return end_at_once(),
        Err(error) => {
            return tracing::warn!(%error, "this process will not notice the end of `pipezero launch`");
        }
    };
    let wait = move || {
        // A signal may interrupt it.
        while poll(&mut [PollFd::new(&parent, PollFlags::IN)], None).is_err() {}
        if !job_files::are_connected() {
            return end_at_once();
        }
        tracing::warn!("`pipezero launch` has ended: this process ends after its step");
        signal_own(Signal::TERM);
    };
    if let Err(error) = thread::Builder::new().name("parent".to_owned()).spawn(wait) {
        tracing::warn!(%error, "this process will not notice the end of `pipezero launch`");
    }
}

/// Ends this process, and the `mpirun` that started it: that waits for ever for processes that end before MPI connects them, and with `launch` gone nobody else
/// ends it.
fn end_at_once() {
    if let Some(starter) = getppid()
        && fs::read_to_string(format!("/proc/{}/comm", starter.as_raw_pid()))
            .is_ok_and(|name| MPIRUN.contains(&name.trim_end()))
    {
        let _ = kill_process(starter, Signal::KILL);
    }
    signal_own(Signal::KILL);
}

fn signal_own(signal: Signal) {
    if let Some(own) = Pid::from_raw(process::id().cast_signed()) {
        let _ = kill_process(own, signal);
    }
}
