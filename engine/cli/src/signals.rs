//! Signals that end a command where its work can go on later: a run after its step, with a checkpoint.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use pipezero_config::EndSignal;
use pipezero_files::host::{LaunchedProcess, Launcher, job_files};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;

use super::output::{is_silent, note, show};

/// What signals ask of a run, or of other work.
#[derive(Debug, Default)]
pub(super) struct Signalled {
    /// Whether it is to end after its step, or its batch.
    pub(super) interrupted: AtomicBool,
    /// The number of the first signal; 0 before.
    first: AtomicI32,
    /// Whether it has ended, and has only to say so.
    is_over: AtomicBool,
}

impl Signalled {
    /// The run has ended: the next signal changes nothing, and the one after it ends the process.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.interrupted.store(false, Ordering::Relaxed);
    }

    /// The number of the first signal; 0 before.
    pub(super) fn first(&self) -> i32 {
        self.first.load(Ordering::Relaxed)
    }
}

/// After what the first signal ends a command.
#[derive(Clone, Copy, Debug)]
enum After {
    /// A step of a run.
    Step,
    /// A batch of documents that become tokens.
    Batch,
}

impl After {
    /// What the first signal does.
    fn first(self) -> &'static str {
        match self {
            Self::Step => "the run ends after this step, with a checkpoint",
            Self::Batch => "the work ends after these documents, and what has been done is kept",
        }
    }

    /// What the second does.
    fn second(self) -> &'static str {
        match self {
            Self::Step => "the run ends at once",
            Self::Batch => "the work ends at once",
        }
    }
}

/// The first of these signals asks a run, or all runs of this process, to end after the step: Ctrl-C, SIGTERM, SIGHUP, SIGXCPU when processor time is nearly used up, and those that a scheduler sends. The second ends the process
/// at once, with status 128 and its number, as shells report it. A signal that is ignored when the program starts, as `nohup` has it, stays so.
pub(super) fn end_after_the_step(own: impl IntoIterator<Item = EndSignal>) -> Arc<Signalled> {
    end_after(After::Step, own)
}

/// As [`end_after_the_step`], of work that ends after a batch.
pub(super) fn end_after_the_batch() -> Arc<Signalled> {
    end_after(After::Batch, [])
}

fn end_after(after: After, own: impl IntoIterator<Item = EndSignal>) -> Arc<Signalled> {
    let signalled = Arc::new(Signalled::default());
    let own = own.into_iter().filter_map(|own| match own {
        EndSignal::Usr1 => Some(SIGUSR1),
        EndSignal::Usr2 => Some(SIGUSR2),
        EndSignal::None => None,
    });
    let ignored = ignored_signals(&status_of_process());
    let signals =
        [SIGINT, SIGTERM, SIGHUP, SIGXCPU].into_iter().chain(own).filter(|&signal| !is_in(ignored, signal));
    if let Err(error) = wait_for(signals.collect(), after, Arc::clone(&signalled)) {
        note(format_args!("warning: a signal will end the run at once: {error}"));
    }
    signalled
}

fn wait_for(signals: Vec<i32>, after: After, signalled: Arc<Signalled>) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let wait = move || {
        for signal in signals.forever() {
            let name = signal_name(signal).unwrap_or("a signal");
            // The system repeats it every second.
            if signal == SIGXCPU && signalled.interrupted.load(Ordering::Acquire) {
                continue;
            }
            // Before `interrupted`, so that a thread that sees that there was a signal sees which.
            let _ = signalled.first.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
            if signalled.interrupted.swap(true, Ordering::AcqRel) {
                // Not to the log: its file system may be what hangs.
                if !is_silent() {
                    show(&format!("{name}, the second signal: {}", after.second()));
                }
                std::process::exit(128 + signal);
            }
            if signalled.is_over.load(Ordering::Relaxed) {
                continue;
            }
            // Open MPI's mpirun passes these on, and kills what is left two seconds later.
            let is_of_a_job = matches!(after, After::Step) && matches!(signal, SIGINT | SIGTERM);
            let is_hasty = is_of_a_job && is_of_mpirun();
            let but = if is_hasty {
                "; mpirun does so by itself 2 s after this one: where steps are longer, send it SIGUSR1"
            } else {
                ""
            };
            let first = after.first();
            note(format_args!("\n{name}: {first}; a second signal ends it at once{but}"));
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// Whether a user's `mpirun` has started this process, and not `pipezero launch`, which passes signals on itself.
fn is_of_mpirun() -> bool {
    let launcher = LaunchedProcess::this().ok().flatten().map(|launched| launched.launcher);
    launcher == Some(Launcher::OpenMpi) && std::env::var_os(job_files::FOLDER).is_none()
}

/// What Linux says of this process; empty elsewhere.
fn status_of_process() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// The signals that are ignored, a bit for each from 1 on.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(signals: u64, signal: i32) -> bool {
    signals >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let ignored = ignored_signals("Name:\tpipezero\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert!(is_in(ignored, SIGHUP) && is_in(ignored, 13) && !is_in(ignored, SIGINT));
        assert_eq!(ignored_signals(""), 0);
    }
}
