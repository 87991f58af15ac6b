//! The name of this host, and texts by which its processes know their own.

use std::time::{SystemTime, UNIX_EPOCH};

/// Its name, as the system has it.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A text that no other process writes, and this one only once: the host, the process and the time.
pub fn unique_sign() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} {} {}", name(), std::process::id(), since.as_nanos())
}
