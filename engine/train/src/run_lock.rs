//! One run at a time in a directory: a lock that the system takes back when its holder ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pipezero_files::host;
use pipezero_files::input::read_text;
use pipezero_files::opened::{Own, open_own, open_regular};

/// Bytes of what is written in the file, at most: the name of a host has 64.
const SIGN_BYTES_MAX: u64 = 4096;

/// The lock of a run directory, held until it is dropped.
#[derive(Debug)]
pub(super) struct RunLock {
    file: Mutex<File>,
    path: PathBuf,
    /// The directory: its device and its number there.
    directory: (u64, u64),
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another run has it; what that one wrote of itself.
    Held(String),
    /// The system refused.
    Io(io::Error),
}

/// Whether a lock that is looked at again is the one that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StillHeld {
    /// It is.
    Yes,
    /// Its file had been removed, and another is locked now.
    Anew,
}

impl RunLock {
    /// Its file in the directory, which stays: to remove it would let a third run lock another file of that name.
    pub(super) const FILE: &str = "run.lock";

    /// Takes the lock of a directory. A file system without locks, as some network mounts are, is warned of.
    pub(super) fn take(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(Self::FILE);
        let directory = fs::metadata(directory).map(|found| number_of(&found)).map_err(LockError::Io)?;
        let file = Mutex::new(locked(&path)?);
        Ok(Self { file, path, directory })
    }

    /// Checks that the directory still has this lock. Where its file was removed, as by one who cleans up, the lock is taken anew, unless another run `has_been_here`.
    ///
    /// # Errors
    /// [`LockError::Held`] if another run has, or had, its lock there; [`LockError::Io`] if the directory was removed, or is another that took its name.
    pub(super) fn hold(&self, has_been_here: impl FnOnce() -> bool) -> Result<StillHeld, LockError> {
        let another = || io::Error::other("the folder is another one than that in which the run began");
        let folder = self.path.parent().unwrap_or(Path::new("."));
        match fs::metadata(folder).map(|found| number_of(&found)) {
            Ok(found) if found == self.directory => {}
            Ok(_) => return Err(LockError::Io(another())),
            Err(error) => return Err(LockError::Io(error)),
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let own = file.metadata().map_err(LockError::Io)?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) if number_of(&found) == number_of(&own) => return Ok(StillHeld::Yes),
            // The lock of another run, which may have ended.
            Ok(_) => return Err(LockError::Held(holder(&self.path))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(LockError::Io(error)),
        }
        if has_been_here() {
            return Err(LockError::Held("which has ended".to_owned()));
        }
        *file = locked(&self.path)?;
        Ok(StillHeld::Anew)
    }

    /// The text that the holder of a directory's lock has written into it.
    pub(super) fn sign_in(directory: &Path) -> Option<String> {
        read_text(&directory.join(Self::FILE), SIGN_BYTES_MAX).ok()
    }

    /// Whether another run has the lock of a directory.
    pub(super) fn is_held(directory: &Path) -> Option<String> {
        let path = directory.join(Self::FILE);
        let file = open_regular(&path).ok()?;
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| holder(&path))
    }
}

/// The device and the inode, which identify a file while it exists.
fn number_of(of: &fs::Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// The file of this name, locked.
fn locked(path: &Path) -> Result<File, LockError> {
    let mut file = open_own(path, Own::Kept).map_err(LockError::Io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder(path))),
        Err(TryLockError::Error(error)) => {
            tracing::warn!(%error, path = %path.display(), "cannot be locked: another run here would not be noticed");
        }
    }
    // The second line tells this start from all others: by it other hosts know that they see the same folder.
    let process = format!("process {}\n{}\n", std::process::id(), host::unique_sign());
    let written = file.set_len(0).and_then(|()| file.write_all(process.as_bytes()));
    written.map_err(LockError::Io)?;
    Ok(file)
}

fn holder(path: &Path) -> String {
    let text = read_text(path, SIGN_BYTES_MAX).unwrap_or_default();
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

    #[test]
    fn a_lock_whose_file_was_removed_is_taken_anew_unless_another_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(RunLock::FILE);
        let first = RunLock::take(folder.path()).unwrap();
        assert_eq!(first.hold(|| false).unwrap(), StillHeld::Yes);
        fs::remove_file(&file).unwrap();
        assert_eq!(
            (first.hold(|| false).unwrap(), first.hold(|| false).unwrap()),
            (StillHeld::Anew, StillHeld::Yes)
        );
        assert!(matches!(RunLock::take(folder.path()), Err(LockError::Held(_))));
        fs::remove_file(&file).unwrap();
        assert!(matches!(first.hold(|| true), Err(LockError::Held(_))) && !file.exists());
        let second = RunLock::take(folder.path()).unwrap();
        assert!(matches!(first.hold(|| false), Err(LockError::Held(_))));
        drop(second);
        // It has ended, and what is in the folder is its.
        assert!(matches!(first.hold(|| false), Err(LockError::Held(_))));
        fs::rename(folder.path(), folder.path().with_extension("moved")).unwrap();
        fs::create_dir(folder.path()).unwrap();
        assert!(matches!(first.hold(|| false), Err(LockError::Io(_))));
        fs::remove_dir_all(folder.path().with_extension("moved")).unwrap();
    }
}
