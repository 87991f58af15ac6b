//! Turns limits of the system into errors, so that none ends the program without a message.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use pipezero_files::host::{Limit, signal_before_processor_time_ends};
use pipezero_models::memory::share_one_heap;
use signal_hook::consts::{SIGXCPU, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use super::output::show;

/// The stack that commands run on, as systems give it to a first thread by default.
const STACK_BYTES: usize = 8 << 20;

/// Runs the program with a stack that is large enough, and so that limits become errors. Call it before there are threads.
pub(super) fn within_limits(run: fn() -> ExitCode) -> ExitCode {
    if Limit::AddressSpace.value().is_some() {
        share_one_heap();
    }
    // A signal that is caught makes the write fail; nobody looks at the flag.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    if Limit::Stack.value().is_none_or(|bytes| bytes >= STACK_BYTES as u64) {
        return run();
    }
    let thread = thread::Builder::new().name("main".to_owned()).stack_size(STACK_BYTES).spawn(run);
    match thread.map(thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        // The panic has been printed.
        Ok(Err(_)) => ExitCode::from(101),
        Err(error) => {
            show(&format!(
                "error: the stack has {} bytes, and no thread with {STACK_BYTES} can be started ({error}): raise the limit with {}",
                Limit::Stack.value().unwrap_or(0),
                Limit::Stack.command()
            ));
            ExitCode::FAILURE
        }
    }
}

/// Where processor time has a limit, ends a command that has nothing to save with an error before the system kills it. Runs and `tokenize` save what
/// they have ([`super::signals`]).
pub(super) fn end_before_processor_time(saves: bool) -> io::Result<()> {
    if !signal_before_processor_time_ends() || saves {
        return Ok(());
    }
    let mut signals = Signals::new([SIGXCPU])?;
    let wait = move || {
        if signals.forever().next().is_some() {
            let max = Limit::ProcessorTime.value().map_or_else(String::new, |max| format!(", {max} s,"));
            show(&format!(
                "error: the limit of processor time of this process{max} is nearly used up: raise it with {}",
                Limit::ProcessorTime.command()
            ));
            std::process::exit(1);
        }
    };
    thread::Builder::new().name("limits".to_owned()).spawn(wait).map(drop)
}
