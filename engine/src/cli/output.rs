//! Standard output and standard error, written so that a reader who has gone (`| head`) is no panic.

use std::fmt::Display;
use std::io::{self, Write, stderr, stdout};

/// Writes to stdout: what a command is asked for.
///
/// # Errors
/// What the system says; a closed pipe becomes a quiet end in [`super::failure`].
pub(super) fn print(text: impl Display) -> io::Result<()> {
    let mut out = stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Writes a line to stderr: progress, hints and warnings. Nothing can be done if nobody listens.
pub(super) fn note(text: impl Display) {
    let _ = writeln!(stderr(), "{text}");
}
