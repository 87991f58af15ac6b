//! The message that each process sends before processes are compared.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A process, with its inputs and the large files that it sees.
#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) rank: usize,
    pub(super) host: String,
    pub(super) inputs: Vec<(String, String)>,
    pub(super) files: Vec<FileFacts>,
}

/// A large file as a process sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileFacts {
    pub(super) name: String,
    pub(super) num_bytes: u64,
    /// The device, the inode and the time of the last change, which identify a file on its host.
    pub(super) identity: (u64, u64, i64, i64),
}

impl FileFacts {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        let identity = (found.dev(), found.ino(), found.ctime(), found.ctime_nsec());
        Ok(Self { name: name_of(path), num_bytes: found.len(), identity })
    }

    #[cfg(test)]
    pub(super) fn named(name: String, num_bytes: u64) -> Self {
        Self { name, num_bytes, identity: (0, 0, 0, 0) }
    }
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
