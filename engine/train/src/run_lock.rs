//! One run at a time in a directory: a lock that the system takes back when its holder ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pipezero_files::input::read_text;
use pipezero_files::opened::{Own, open_own, open_regular};

/// The lock of a run directory, held until it is dropped.
#[derive(Debug)]
pub(super) struct RunLock {
    file: File,
    path: PathBuf,
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another run has it; what that one wrote of itself.
    Held(String),
    /// The system refused.
    Io(io::Error),
}

impl RunLock {
    /// Its file in the directory, which stays: to remove it would let a third run lock another file of that name.
    pub(super) const FILE: &str = "run.lock";

    /// Takes the lock of a directory. A file system without locks, as some network mounts are, is warned of.
    pub(super) fn take(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(Self::FILE);
        let mut file = open_own(&path, Own::Kept).map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder(&path))),
            Err(TryLockError::Error(error)) => {
                tracing::warn!(%error, path = %path.display(), "cannot be locked: another run here would not be noticed");
                return Ok(Self { file, path });
            }
        }
        let process = format!("process {}\n", std::process::id());
        let written = file.set_len(0).and_then(|()| file.write_all(process.as_bytes()));
        written.map_err(LockError::Io)?;
        Ok(Self { file, path })
    }

    /// Checks that the directory still has this lock: it may have been removed, or be another that took its name.
    pub(super) fn check_is_there(&self) -> io::Result<()> {
        let (own, found) = (self.file.metadata()?, fs::metadata(&self.path)?);
        match (own.dev(), own.ino()) == (found.dev(), found.ino()) {
            true => Ok(()),
            false => Err(io::Error::other("the folder is another one than that in which the run began")),
        }
    }

    /// Whether another run has the lock of a directory.
    pub(super) fn is_held(directory: &Path) -> Option<String> {
        let path = directory.join(Self::FILE);
        let file = open_regular(&path).ok()?;
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| holder(&path))
    }
}

/// Bytes of a lock file at most: it names a process.
const HOLDER_BYTES_MAX: u64 = 4096;

fn holder(path: &Path) -> String {
    let text = read_text(path, HOLDER_BYTES_MAX).unwrap_or_default();
    let known = text.lines().next().filter(|line| line.starts_with("process ")).map(str::to_owned);
    known.unwrap_or_else(|| "another process".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunLock::is_held(folder.path()), None);
        let first = RunLock::take(folder.path()).unwrap();
        let own = format!("process {}", std::process::id());
        assert!(matches!(RunLock::take(folder.path()), Err(LockError::Held(holder)) if holder == own));
        assert_eq!(RunLock::is_held(folder.path()), Some(own));
        drop(first);
        assert_eq!(RunLock::is_held(folder.path()), None);
        RunLock::take(folder.path()).unwrap();
    }
}
