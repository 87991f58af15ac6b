//! What a process of a job says, in the run directory: `DIR/logs/rank-00003.log` and so on, a file for each.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pipezero_files::folder::make_within;
use pipezero_files::opened::{Own, open_own};
use pipezero_files::unknown_files;

use super::run_dir_error::RunDirError;

/// The log of a process.
#[derive(Debug)]
pub struct RankLog {
    file: File,
    path: PathBuf,
}

impl RankLog {
    /// The name of the logs' folder in a run directory.
    pub(super) const FOLDER: &str = "logs";

    /// The folder of the logs of a run directory.
    pub fn folder(directory: &Path) -> PathBuf {
        directory.join(Self::FOLDER)
    }

    /// Opens the log of the process with this rank; one that `goes_on` keeps what an earlier start of the run has left. The folder is made where
    /// the process's host has none.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(directory: &Path, rank: usize, goes_on: bool) -> Result<Self, RunDirError> {
        let folder = Self::folder(directory);
        make_within(&folder).map_err(|source| RunDirError::Io { path: folder.clone(), source })?;
        let path = folder.join(name_of(rank));
        match opened(&path, goes_on) {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(RunDirError::Io { path, source }),
        }
    }

    /// Adds lines. They reach the system at once, so that a run can be watched, and nothing is lost with a process that is killed.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add(&mut self, lines: &str) -> Result<(), RunDirError> {
        let added = self.file.write_all(lines.as_bytes());
        added.map_err(|source| RunDirError::Io { path: self.path.clone(), source })
    }

    /// Something at the place of a run directory's logs, as a path from the directory, that no run wrote.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn first_unknown(directory: &Path) -> io::Result<Option<PathBuf>> {
        unknown_files::first_unknown(&Self::folder(directory), is_name)
    }
}

fn opened(path: &Path, goes_on: bool) -> io::Result<File> {
    open_own(path, if goes_on { Own::AddedTo } else { Own::Emptied })
}

fn name_of(rank: usize) -> String {
    format!("rank-{rank:05}.log")
}

fn is_name(name: &str) -> bool {
    let digits = name.strip_prefix("rank-").and_then(|rest| rest.strip_suffix(".log"));
    digits.and_then(|digits| digits.parse().ok()).is_some_and(|rank| name_of(rank) == name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_names_that_are_written_are_those_of_logs() {
        assert!(is_name("rank-00000.log") && is_name(&name_of(123_456)));
        for name in ["rank-0.log", "rank-000001.log", "rank-+0001.log", "rank-00001.log.gz", "thesis.log"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_log_is_added_to_or_begins_anew() {
        let home = tempfile::tempdir().unwrap();
        for (goes_on, expected) in [(true, "a\n"), (true, "a\na\n"), (false, "a\n")] {
            RankLog::open(home.path(), 3, goes_on).unwrap().add("a\n").unwrap();
            assert_eq!(fs::read_to_string(home.path().join("logs/rank-00003.log")).unwrap(), expected);
        }
        assert_eq!(RankLog::first_unknown(home.path()).unwrap(), None);
        std::os::unix::fs::symlink("thesis.txt", home.path().join("logs/rank-00004.log")).unwrap();
        assert_eq!(RankLog::first_unknown(home.path()).unwrap(), Some(PathBuf::from("logs/rank-00004.log")));
        assert!(matches!(RankLog::open(home.path(), 4, true), Err(RunDirError::Io { .. })));
    }
}
