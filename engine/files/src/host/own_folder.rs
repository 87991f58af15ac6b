//! A folder for temporary files that a process has for as long as it lives.
//!
//! No other user can enter it, whatever the umask, and its name cannot be guessed. It is locked, and removed when it is dropped. If nobody holds the lock any more, that process was killed, and the next process that makes one removes
//! the folder. Rejected: the process's number in the name, because in another container that may be another process.
//!
//! Only the user can read it or write to it, whatever the umask: others could end a job by what they write there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

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
        // It gets its name once it is locked.
        let unlocked = tempfile::Builder::new()
            .prefix(&format!(".{prefix}"))
            .rand_bytes(16)
            .permissions(fs::Permissions::from_mode(OF_THE_USER))
            .tempdir_in(home)?;
        let name = unlocked.path().file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let path = home.join(name.trim_start_matches('.'));
        let lock = File::open(unlocked.path())?;
        let lock = lock.try_lock().is_ok().then_some(lock);
        fs::rename(unlocked.path(), &path)?;
        // Nothing has its first name any more.
        let _ = unlocked.keep();
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

/// Removes the folders whose processes have ended. Those of other users are left alone, and whatever else has such a name.
fn remove_abandoned(home: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix));
        if is_ours && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    // A pipe is not waited for, and a link is not followed.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(folder) = openat(CWD, path, flags, Mode::empty()).map(File::from) else { return false };
    let is_own = |found: fs::Metadata| found.uid() == rustix::process::geteuid().as_raw();
    folder.metadata().is_ok_and(is_own) && folder.try_lock().is_ok()
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn no_other_user_enters_it() {
        let home = tempfile::tempdir().unwrap();
        let own = OwnFolder::within(home.path(), "pipezero-job-").unwrap();
        assert_eq!(fs::metadata(own.path()).unwrap().mode() & 0o777, 0o700);
        assert!(own.path().file_name().unwrap().to_str().unwrap().starts_with("pipezero-job-"));
    }

    /// What a neighbour can put into /tmp under such a name: nothing is waited for, and nothing of it is removed.
    #[test]
    fn what_others_have_put_there_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let [pipe, link, file, elsewhere] =
            ["pipezero-job-pipe", "pipezero-job-link", "pipezero-job-file", "elsewhere"]
                .map(|name| home.path().join(name));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("thesis"), "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        fs::write(&file, "").unwrap();
        let others = home.path().join("pipezero-job-others");
        fs::create_dir(&others).unwrap();
        // Only the superuser can give a folder away.
        let is_given = std::os::unix::fs::chown(&others, Some(1234), None).is_ok();
        drop(OwnFolder::within(home.path(), "pipezero-job-").unwrap());
        assert!(fs::symlink_metadata(&pipe).is_ok() && link.is_symlink() && file.exists());
        assert!(elsewhere.join("thesis").exists());
        assert_eq!(others.exists(), is_given);
    }
}
