//! The version of an input: what tells, without reading it, whether a file is the one that it was.

use std::path::Path;
use std::time::UNIX_EPOCH;
use std::{fs, io};

use serde::{Deserialize, Serialize};

/// A file's length, and when it was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Version {
    /// Bytes.
    pub(super) num_bytes: u64,
    /// When it was last changed, in nanoseconds since 1970.
    changed_ns: u64,
}

impl Version {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self { num_bytes: found.len(), changed_ns: changed.map_or(0, |since| since.as_nanos() as u64) })
    }
}
