//! The log of a process of a job in the run directory: what the process says, with the time. Until that directory is there, it is held in
//! memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pipezero_train::{RankLog, RunDirError};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

static KEPT: Mutex<Kept> = Mutex::new(Kept::Nothing);

/// Where what is said goes beside the screen.
#[derive(Debug)]
enum Kept {
    /// Nowhere.
    Nothing,
    /// Into a log that is not open yet.
    Held(String),
    InFile(RankLog),
}

fn locked() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on what this process says is held for its log.
pub(super) fn hold() {
    *locked() = Kept::Held(String::new());
}

/// Writes what was held, and from now on all that this process says, to its log. Where there is none, or it cannot be written, nothing
/// more is kept.
///
/// # Errors
/// When the log could not be opened, or cannot be written.
pub(super) fn keep_in(opened: Result<RankLog, RunDirError>) -> Result<(), RunDirError> {
    let mut kept = locked();
    let Kept::Held(held) = std::mem::replace(&mut *kept, Kept::Nothing) else { return Ok(()) };
    let mut opened = opened?;
    opened.add(&held)?;
    *kept = Kept::InFile(opened);
    Ok(())
}

/// Adds a text, if it is kept.
///
/// # Errors
/// When the log cannot be written. Nothing more is kept then.
pub(super) fn add(text: &str) -> Result<(), RunDirError> {
    let text = text.trim_matches('\n');
    let mut kept = locked();
    if matches!(*kept, Kept::Nothing) || text.is_empty() {
        return Ok(());
    }
    let mut lines = String::new();
    // A clock that cannot be read leaves its place empty.
    let _ = SystemTime.format_time(&mut Writer::new(&mut lines));
    lines.push(' ');
    lines.push_str(text);
    lines.push('\n');
    let added = match &mut *kept {
        Kept::Nothing => Ok(()),
        Kept::Held(held) => {
            held.push_str(&lines);
            Ok(())
        }
        Kept::InFile(opened) => opened.add(&lines),
    };
    if added.is_err() {
        *kept = Kept::Nothing;
    }
    added
}
