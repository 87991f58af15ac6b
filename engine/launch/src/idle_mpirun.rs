//! `mpirun` once it has no processes left. Mostly it ends by itself. It waits for ever where its processes have ended before they were connected, or
//! where something else holds a connection to its port.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::seen_processes::SeenProcesses;
use super::started::Started;

/// How long it may take until the first process begins.
const TIME_TO_BEGIN: Duration = Duration::from_secs(60);
/// How long `mpirun` may be alone, without processes, after they have failed.
const TIME_ALONE: Duration = Duration::from_secs(1);
/// And after they have done what they were asked: what reads their output may be slow.
const TIME_TO_PRINT: Duration = Duration::from_secs(20);
/// How long `mpirun` has to end after a SIGTERM.
const TIME_AFTER_SIGNAL: Duration = Duration::from_secs(2);

/// Ends `mpirun` with a SIGTERM, and with a SIGKILL if that is not enough.
#[derive(Debug, Default)]
pub(super) struct IdleMpirun {
    signalled_at: Option<Instant>,
}

impl IdleMpirun {
    /// To be called again and again, with the statuses that the processes have left so far.
    pub(super) fn end_if_alone(
        &mut self,
        started: &mut Started,
        seen: &SeenProcesses,
        statuses: &[Option<u8>],
        is_interrupted: bool,
    ) {
        let patience = patience(seen.has_one_begun(), statuses, is_interrupted);
        if seen.none_for(Instant::now()).is_none_or(|time| time <= patience) {
            return;
        }
        match self.signalled_at {
            None => {
                self.signalled_at = Some(Instant::now());
                started.signal_starter(Signal::TERM);
            }
            Some(since) if since.elapsed() > TIME_AFTER_SIGNAL => started.signal_starter(Signal::KILL),
            Some(_) => {}
        }
    }

    /// Whether it was alone for too long.
    pub(super) fn was_signalled(&self) -> bool {
        self.signalled_at.is_some()
    }
}

/// How long it may be alone.
fn patience(has_one_begun: bool, statuses: &[Option<u8>], is_interrupted: bool) -> Duration {
    if !has_one_begun && !is_interrupted {
        TIME_TO_BEGIN
    } else if statuses.iter().all(|status| *status == Some(0)) {
        TIME_TO_PRINT
    } else {
        TIME_ALONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpirun_is_given_time_to_begin_and_to_print_and_none_to_wait_for_the_dead() {
        for (has_one_begun, statuses, is_interrupted, expected) in [
            (false, [None, None], false, TIME_TO_BEGIN),
            (false, [None, None], true, TIME_ALONE),
            (true, [None, None], false, TIME_ALONE),
            (true, [None, None], true, TIME_ALONE),
            (true, [Some(0), None], false, TIME_ALONE),
            (true, [Some(0), Some(1)], false, TIME_ALONE),
            (true, [Some(0), Some(0)], false, TIME_TO_PRINT),
            (true, [Some(0), Some(0)], true, TIME_TO_PRINT),
        ] {
            let found = patience(has_one_begun, &statuses, is_interrupted);
            assert_eq!(found, expected, "{has_one_begun}, {statuses:?}, {is_interrupted}");
        }
    }
}
