//! The log of a process of a job in the run directory: what the process says, with the time. Until that directory is there, it is held in
//! memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::train::{RankLog, RunDirError};

static LOG: Mutex<Log> = Mutex::new(Log::None);

/// Where what is said goes beside the screen.
#[derive(Debug)]
enum Log {
    /// Nowhere.
    None,
    /// Into a log that is not open yet.
    Held(String),
    Open(RankLog),
}

fn log() -> MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on what this process says is held for its log.
pub(super) fn hold() {
    *log() = Log::Held(String::new());
}

/// Writes what was held, and from now on all that this process says, to its log. Where there is none, or it cannot be written, nothing
/// more is kept.
///
/// # Errors
/// When the log could not be opened, or cannot be written.
pub(super) fn keep_in(opened: Result<RankLog, RunDirError>) -> Result<(), RunDirError> {
    let mut log = log();
    let Log::Held(held) = std::mem::replace(&mut *log, Log::None) else { return Ok(()) };
    let mut opened = opened?;
    opened.add(&held)?;
    *log = Log::Open(opened);
    Ok(())
}

/// Adds a text, if it is kept.
///
/// # Errors
/// When the log cannot be written. Nothing more is kept then.
pub(super) fn add(text: &str) -> Result<(), RunDirError> {
    let text = text.trim_matches('\n');
    let mut log = log();
    if matches!(*log, Log::None) || text.is_empty() {
        return Ok(());
    }
    let mut lines = String::new();
    // A clock that cannot be read leaves its place empty.
    let _ = SystemTime.format_time(&mut Writer::new(&mut lines));
    lines.push(' ');
    lines.push_str(text);
    lines.push('\n');
    let added = match &mut *log {
        Log::None => Ok(()),
        Log::Held(held) => {
            held.push_str(&lines);
            Ok(())
        }
        Log::Open(opened) => opened.add(&lines),
    };
    if added.is_err() {
        *log = Log::None;
    }
    added
}
