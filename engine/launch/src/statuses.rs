//! What the processes of a job have left for this one: each a file, named by its rank, with its exit status. One that something else ends leaves
//! none.

use std::path::{Path, PathBuf};
use std::{env, io};

use pipezero_files::host::{OwnFolder, job_files};
use pipezero_files::input::read_text;

/// Prefix of the names of a job's folders.
pub(super) const FOLDER_PREFIX: &str = "pipezero-job-";

/// Bytes of such a file at most: an error that a process leaves to another to say.
const STATUS_BYTES_MAX: u64 = 1 << 20;

/// The files of the processes of one attempt, in a folder that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Statuses {
    folder: OwnFolder,
    num_processes: usize,
}

impl Statuses {
    pub(super) fn new(num_processes: usize) -> io::Result<Self> {
        Self::within(&env::temp_dir(), num_processes)
    }

    fn within(home: &Path, num_processes: usize) -> io::Result<Self> {
        Ok(Self { folder: OwnFolder::within(home, FOLDER_PREFIX)?, num_processes })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `[rank]`: how its process has ended, as far as it says.
    pub(super) fn read(&self) -> Vec<Option<u8>> {
        self.each(job_files::status_of).map(|text| text?.parse().ok()).collect()
    }

    /// Whether all processes are connected, and notice by themselves that one is lost.
    pub(super) fn are_connected(&self) -> bool {
        job_files::connected(self.folder()).exists()
    }

    /// `[rank]`: why its process has ended, where another rank's is to say it.
    pub(super) fn unsaid(&self) -> Vec<Option<String>> {
        self.each(job_files::unsaid_of).collect()
    }

    fn each(&self, file: fn(&Path, usize) -> PathBuf) -> impl Iterator<Item = Option<String>> {
        (0..self.num_processes).map(move |rank| read_text(&file(self.folder(), rank), STATUS_BYTES_MAX).ok())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
}
