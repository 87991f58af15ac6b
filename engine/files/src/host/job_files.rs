//! What a process of a job tells `pipezero launch`, which has started it: files in a folder, since who has been killed can say nothing any more.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::launcher::Launcher;
use crate::opened::{Own, open_own};

/// The variables by which a process knows its rank that `pipezero launch` has started: it sets one of them.
const RANKS: [&str; 2] = [Launcher::OpenMpi.names()[0], Launcher::Torchrun.names()[0]];
/// The variable that names the folder of the files.
pub const FOLDER: &str = "PIPEZERO_STATUSES";

/// The file with the status of a rank's process.
pub fn status_of(folder: &Path, rank: impl ToString) -> PathBuf {
    folder.join(rank.to_string())
}

/// The file with what the process of a rank leaves to another to say.
pub fn unsaid_of(folder: &Path, rank: impl ToString) -> PathBuf {
    folder.join(format!("{}.unsaid", rank.to_string()))
}

/// The file that is there once all processes are connected.
pub fn connected(folder: &Path) -> PathBuf {
    folder.join("connected")
}

/// Says with which status this process ends, if `pipezero launch` has started it.
pub fn leave_status(status: u8) {
    // Who launched it takes a process without a file for one that was lost.
    leave(status_of, &status.to_string());
}

/// Says why this process ends, where the process of another rank is to say it on the screen.
pub fn leave_unsaid(error: &str) {
    leave(unsaid_of, error);
}

/// Says that all processes are connected: from now on they notice by themselves that one is lost.
pub fn leave_connected() {
    leave(|folder, _| connected(folder), "");
}

/// Whether the processes of the job have said so, where `pipezero launch` has started this one.
pub fn are_connected() -> bool {
    env::var_os(FOLDER).is_some_and(|folder| connected(Path::new(&folder)).exists())
}

fn leave(file: impl FnOnce(&Path, String) -> PathBuf, text: &str) {
    // The other variables of launchers may be what is wrong.
    let rank = RANKS.iter().find_map(|name| env::var(name).ok());
    let (Some(folder), Some(rank)) = (env::var_os(FOLDER), rank) else { return };
    let _ = open_own(&file(Path::new(&folder), rank), Own::Emptied)
        .and_then(|mut file| file.write_all(text.as_bytes()));
}
