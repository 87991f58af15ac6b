//! Standard output and standard error, without a panic if the reader closes them (`| head`), and without control characters that names
//! may hold.

use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};

use crate::files::printable::printable;

/// Writes the result of a command to stdout.
///
/// # Errors
/// The error of the system; [`super::failure`] ends quietly if the pipe is closed.
pub(super) fn print(text: impl Display) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(printable(&text.to_string()).as_bytes())?;
    out.flush()
}

/// Writes a line to stderr: progress, hints and warnings. An error is ignored, since there is no other place for it.
pub(super) fn note(text: impl Display) {
    let _ = writeln!(stderr(), "{}", printable(&text.to_string()));
}
