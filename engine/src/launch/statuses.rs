//! How the processes of a job have ended: each leaves a file, named by its rank, with its exit status. One that something else ends
//! leaves none.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

use crate::host::Launcher;

/// The variables by which a process knows its rank that `pipezero launch` has started: it sets one of them.
const RANKS: [&str; 2] = [Launcher::OpenMpi.names()[0], Launcher::Torchrun.names()[0]];
/// The variable that names the folder of the files.
pub(crate) const FOLDER: &str = "PIPEZERO_STATUSES";

/// Says with which status this process ends, if `pipezero launch` has started it.
pub(crate) fn leave(status: u8) {
    // The other variables of launchers may be what is wrong.
    let rank = RANKS.iter().find_map(|name| env::var(name).ok());
    let (Some(folder), Some(rank)) = (env::var_os(FOLDER), rank) else { return };
    // Who launched it takes a process without a file for one that was lost.
    let _ = fs::write(Path::new(&folder).join(rank), status.to_string());
}

/// The folder of one attempt, removed when it is dropped.
#[derive(Debug)]
pub(super) struct Statuses {
    folder: PathBuf,
    num_processes: usize,
}

impl Statuses {
    pub(super) fn new(num_processes: usize) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let folder = env::temp_dir().join(format!("pipezero-launch-{}-{now}", process::id()));
        fs::create_dir(&folder)?;
        Ok(Self { folder, num_processes })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// `[rank]`: how its process has ended, as far as it says.
    pub(super) fn read(&self) -> Vec<Option<u8>> {
        let status = |rank: usize| fs::read_to_string(self.folder.join(rank.to_string())).ok()?.parse().ok();
        (0..self.num_processes).map(status).collect()
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_file_has_said_nothing() {
        let statuses = Statuses::new(3).unwrap();
        let folder = statuses.folder().to_owned();
        fs::write(folder.join("2"), "1").unwrap();
        fs::write(folder.join("0"), "0").unwrap();
        assert_eq!(statuses.read(), [Some(0), None, Some(1)]);
        drop(statuses);
        assert!(!folder.exists());
    }
}
