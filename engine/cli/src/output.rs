//! Standard output and standard error, without a panic if the reader closes them (`| head`), and without control characters that names
//! may hold. What a process of a job says is kept in its [`log`] too.

use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use pipezero_files::printable::printable;
use pipezero_train::{RankLog, RunDirError};

use super::log;

/// Whether another process speaks for this one.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// Results and notes of this process are those of another, which writes them; errors are its own.
pub(super) fn be_silent() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Whether [`be_silent`] was called.
pub(super) fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Whether results and notes are written, or kept in the log of this process alone, since another process says the same: one may speak for an
/// engine and another for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Voice {
    speaks: bool,
}

impl Voice {
    /// That of this process in its job.
    pub(super) fn of_process() -> Self {
        Self { speaks: !is_silent() }
    }

    /// One that writes what it says if it `speaks` for those that say the same.
    pub(super) fn new(speaks: bool) -> Self {
        Self { speaks }
    }

    /// As [`print`].
    ///
    /// # Errors
    /// As [`print`].
    pub(super) fn print(self, text: impl Display) -> io::Result<()> {
        let text = text.to_string();
        let mut out = stdout().lock();
        let printed = match self.speaks {
            true => out.write_all(printable(&text).as_bytes()).and_then(|()| out.flush()),
            false => Ok(()),
        };
        drop(out);
        keep(&text);
        printed
    }

    /// As [`note`].
    pub(super) fn note(self, text: impl Display) {
        let text = text.to_string();
        if self.speaks {
            show(&text);
        }
        keep(&text);
    }
}

/// Writes the result of a command to stdout.
///
/// # Errors
/// The error of the system; [`super::failure`] ends quietly if the pipe is closed.
pub(super) fn print(text: impl Display) -> io::Result<()> {
    Voice::of_process().print(text)
}

/// Writes a line to stderr: progress, hints and warnings. An error is ignored, since there is no other place for it.
pub(super) fn note(text: impl Display) {
    Voice::of_process().note(text);
}

/// Writes an error to stderr, whoever speaks for this process.
pub(super) fn complain(text: impl Display) {
    let text = text.to_string();
    // First what a person sees: a file system may hang.
    show(&text);
    keep(&text);
}

/// Adds a text to the log of this process, if it has one. A warning says where that fails.
pub(super) fn keep(text: &str) {
    warn_if_lost(log::add(&printable(text)));
}

/// What this process says is kept in this log from now on, after what was held for it. A warning says where that fails, and the process goes on
/// without.
pub(super) fn keep_in(opened: Result<RankLog, RunDirError>) {
    warn_if_lost(log::keep_in(opened));
}

fn warn_if_lost(kept: Result<(), RunDirError>) {
    if let Err(error) = kept {
        show(&format!("warning: what this rank says is not kept: {error}"));
    }
}

/// Writes to stderr alone.
pub(super) fn show(text: &str) {
    // In one piece: other processes write to the same place.
    let line = format!("{}\n", printable(text));
    let _ = stderr().write_all(line.as_bytes());
}

/// Takes the events of [`tracing`] into the log of this process.
#[derive(Debug)]
pub(super) struct Events;

impl Write for Events {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        keep(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
