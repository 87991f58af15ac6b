//! A folder for temporary files that a process has for as long as it lives.
//!
//! It is locked, and removed when it is dropped. If nobody holds the lock any more, that process was killed, and the next process that makes one removes
//! the folder. Rejected: the process's number in the name, because in another container that may be another process.
//!
//! Only the user can read it or write to it, whatever the umask: others could end a job by what they write there.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{io, process};

/// The mode of a folder that is the user's alone.
const OF_THE_USER: u32 = 0o700;

/// A folder of this process.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
    /// Locked; `None` on a disk that has no locks, where no folder is ever taken for abandoned.
    _lock: Option<File>,
}

impl OwnFolder {
    /// A new one in this folder, whose name begins so. Those with such a name whose processes have ended are removed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn within(home: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(home, prefix);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let name = format!("{prefix}{}-{now}", process::id());
        // It gets its name once it is locked.
        let (unlocked, path) = (home.join(format!(".{name}")), home.join(name));
        DirBuilder::new().mode(OF_THE_USER).create(&unlocked)?;
        let lock = File::open(&unlocked)?;
        let lock = lock.try_lock().is_ok().then_some(lock);
        fs::rename(&unlocked, &path)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders whose processes have ended. What cannot be read or removed belongs to another user.
fn remove_abandoned(home: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        let is_abandoned = || File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_ours && is_abandoned() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_folder_of_a_process_that_has_ended_is_removed_by_the_next_and_no_other_is() {
        let home = tempfile::tempdir().unwrap();
        let [abandoned, other] = ["pipezero-job-7-7", "another-7-7"].map(|name| home.path().join(name));
        for folder in [&abandoned, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("0"), "0").unwrap();
        }
        let first = OwnFolder::within(home.path(), "pipezero-job-").unwrap();
        let second = OwnFolder::within(home.path(), "pipezero-job-").unwrap();
        assert!(!abandoned.exists() && other.join("0").exists());
        assert!(first.path().exists() && second.path().exists());
        for folder in [&first, &second] {
            let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{mode:o}");
        }
        drop((first, second));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
