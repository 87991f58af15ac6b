//! Standard output and standard error, without a panic if the reader closes them (`| head`), and without control characters that names
//! may hold.

use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::files::printable::printable;

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

/// Writes the result of a command to stdout.
///
/// # Errors
/// The error of the system; [`super::failure`] ends quietly if the pipe is closed.
pub(super) fn print(text: impl Display) -> io::Result<()> {
    if is_silent() {
        return Ok(());
    }
    let mut out = stdout().lock();
    out.write_all(printable(&text.to_string()).as_bytes())?;
    out.flush()
}

/// Writes an error to stderr, whoever speaks for this process.
pub(super) fn complain(text: impl Display) {
    // In one piece: other processes write to the same place.
    let line = format!("{}\n", printable(&text.to_string()));
    let _ = stderr().write_all(line.as_bytes());
}

/// Writes a line to stderr: progress, hints and warnings. An error is ignored, since there is no other place for it.
pub(super) fn note(text: impl Display) {
    if !is_silent() {
        complain(text);
    }
}
