//! What the processes of a job have left for this one: each a file, named by its rank, with its exit status. One that something else ends leaves
//! none.
//!
//! A folder is locked as long as its `pipezero launch` lives. If nobody holds the lock any more, that process was killed, and the next
//! `pipezero launch` removes the folder. Rejected: the process's number in the name, because in another container that may be another
//! process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, io, process};

use pipezero_files::host::job_files;

/// What the names of folders begin with.
const PREFIX: &str = "pipezero-job-";

/// The folder of one attempt, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Statuses {
    folder: PathBuf,
    num_processes: usize,
    /// Locked; `None` on a disk that has no locks, where no folder is ever taken for abandoned.
    _lock: Option<File>,
}

impl Statuses {
    pub(super) fn new(num_processes: usize) -> io::Result<Self> {
        Self::within(&env::temp_dir(), num_processes)
    }

    fn within(home: &Path, num_processes: usize) -> io::Result<Self> {
        remove_abandoned(home);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let name = format!("{PREFIX}{}-{now}", process::id());
        // It gets its name once it is locked.
        let (unlocked, folder) = (home.join(format!(".{name}")), home.join(name));
        fs::create_dir(&unlocked)?;
        let lock = File::open(&unlocked)?;
        let lock = lock.try_lock().is_ok().then_some(lock);
        fs::rename(&unlocked, &folder)?;
        Ok(Self { folder, num_processes, _lock: lock })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// `[rank]`: how its process has ended, as far as it says.
    pub(super) fn read(&self) -> Vec<Option<u8>> {
        self.each(job_files::status_of).map(|text| text?.parse().ok()).collect()
    }

    /// Whether all processes are connected, and notice by themselves that one is lost.
    pub(super) fn are_connected(&self) -> bool {
        job_files::connected(&self.folder).exists()
    }

    /// `[rank]`: why its process has ended, where another rank's is to say it.
    pub(super) fn unsaid(&self) -> Vec<Option<String>> {
        self.each(job_files::unsaid_of).collect()
    }

    fn each(&self, file: fn(&Path, usize) -> PathBuf) -> impl Iterator<Item = Option<String>> {
        (0..self.num_processes).map(move |rank| fs::read_to_string(file(&self.folder, rank)).ok())
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes the folders whose `pipezero launch` has ended. What cannot be read or removed belongs to another user.
fn remove_abandoned(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_abandoned = || File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_ours && is_abandoned() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_file_has_said_nothing() {
        let home = tempfile::tempdir().unwrap();
        let statuses = Statuses::within(home.path(), 3).unwrap();
        let folder = statuses.folder().to_owned();
        fs::write(folder.join("2"), "1").unwrap();
        fs::write(folder.join("0"), "0").unwrap();
        fs::write(folder.join("2.unsaid"), "as rank 1").unwrap();
        assert_eq!(statuses.read(), [Some(0), None, Some(1)]);
        assert_eq!(statuses.unsaid(), [None, None, Some("as rank 1".to_owned())]);
        assert!(!statuses.are_connected());
        fs::write(folder.join("connected"), "").unwrap();
        assert!(statuses.are_connected());
        drop(statuses);
        assert!(!folder.exists());
    }

    #[test]
    fn the_folder_of_a_launch_that_has_ended_is_removed_by_the_next_and_no_other_is() {
        let home = tempfile::tempdir().unwrap();
        let [abandoned, other] = ["pipezero-job-7-7", "another-7-7"].map(|name| home.path().join(name));
        for folder in [&abandoned, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("0"), "0").unwrap();
        }
        let first = Statuses::within(home.path(), 1).unwrap();
        let second = Statuses::within(home.path(), 1).unwrap();
        assert!(!abandoned.exists() && other.join("0").exists());
        assert!(first.folder().exists() && second.folder().exists());
        drop((first, second));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
