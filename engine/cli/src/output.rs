//! Standard output and standard error, without a panic if the reader closes them (`| head`), and without control characters that names may
//! hold. What a process of a job prints is also written to its [`log`].

use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use pipezero_files::printable::{printable, printable_json};
use pipezero_train::{RankLog, RunDirError};

use super::log;

/// Whether another process prints for this one.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// Another process prints results and notes; this one prints errors only.
pub(super) fn be_silent() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Whether [`be_silent`] was called.
pub(super) fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Destination of a process's results and notes: to stdout or stderr and to its log, or only to its log, because another process prints the
/// same. One process may print for an engine and another for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessOutput {
    is_printed: bool,
}

impl ProcessOutput {
    /// Of this process in its job.
    pub(super) fn of_this() -> Self {
        Self { is_printed: !is_silent() }
    }

    /// Prints if `is_printed`: if this process prints for those that would print the same.
    pub(super) fn new(is_printed: bool) -> Self {
        Self { is_printed }
    }

    /// Whether this process prints for those that would print the same.
    pub(super) fn is_printed(self) -> bool {
        self.is_printed
    }

    /// As [`print()`].
    ///
    /// # Errors
    /// As [`print()`].
    pub(super) fn print(self, text: impl Display) -> io::Result<()> {
        let text = text.to_string();
        let mut out = stdout().lock();
        let printed = match self.is_printed {
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
        if self.is_printed {
            show(&text);
        }
        keep(&text);
    }
}

/// Writes the result of a command to stdout.
///
/// # Errors
/// The system's error. If the pipe is closed, [`super::failure`] ends the program without a message.
pub(super) fn print(text: impl Display) -> io::Result<()> {
    ProcessOutput::of_this().print(text)
}

/// As [`print()`], of a text of JSON, which stays JSON.
///
/// # Errors
/// As [`print()`].
pub(super) fn print_json(text: impl Display) -> io::Result<()> {
    print(printable_json(&text.to_string()))
}

/// Writes a line to stderr: progress, hints and warnings. An error is ignored, since there is no other place for it.
pub(super) fn note(text: impl Display) {
    ProcessOutput::of_this().note(text);
}

/// Writes an error to stderr, even if another process prints for this one.
pub(super) fn show_error(text: impl Display) {
    let text = text.to_string();
    // To the screen first: a file system may hang.
    show(&text);
    keep(&text);
}

/// Adds a text to the log of this process, if it has one. If that fails, a warning says so.
pub(super) fn keep(text: &str) {
    warn_if_lost(log::add(&printable(text)));
}

/// From now on writes to this log what this process prints, beginning with what was held back for it. If that fails, a warning says so, and
/// the process goes on without a log.
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
