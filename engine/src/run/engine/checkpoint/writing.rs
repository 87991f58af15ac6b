//! A checkpoint that is not complete yet, as one process knows it.

use std::path::PathBuf;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError};

use crate::run::checkpoint::{CheckpointError, Checkpoints, FileRecord, Manifest, NewCheckpoint};

/// A checkpoint that is not complete yet.
#[derive(Debug)]
pub(in crate::run::engine) struct Writing {
    pub(super) place: Place,
    pub(super) manifest: Manifest,
    pub(super) stage: Stage,
}

/// The folder of a process's ranks.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// In the one process that makes the folder.
    pub(super) new: Option<NewCheckpoint>,
    /// The host, if not all processes see the same folder.
    pub(super) host: Option<String>,
}

impl Place {
    /// Removes what has been written.
    pub(super) fn abandon(self) {
        if let Some(new) = self.new {
            new.abandon();
        }
    }
}

/// What this process still waits for.
#[derive(Debug)]
pub(super) enum Stage {
    /// The files of its ranks.
    Files {
        written: Receiver<Result<FileRecord, CheckpointError>>,
        num_missing: usize,
        files: Vec<Result<FileRecord, CheckpointError>>,
    },
    /// The folder's name, if it makes the folder; then whether that has it.
    Name { named: Receiver<Result<(), CheckpointError>>, done: Option<Result<(), CheckpointError>> },
}

impl Stage {
    /// Whether something is still missing after so long.
    pub(super) fn is_waiting(&mut self, wait: Duration) -> bool {
        match self {
            Self::Files { written, num_missing, files } => {
                while *num_missing > 0 {
                    match written.recv_timeout(wait) {
                        Ok(file) => {
                            *num_missing -= 1;
                            files.push(file);
                        }
                        Err(RecvTimeoutError::Timeout) => return true,
                        // A thread that panicked took its rank's copy with it; that rank says so at the next checkpoint.
                        Err(RecvTimeoutError::Disconnected) => {
                            *num_missing = 0;
                            files.push(Err(ended()));
                        }
                    }
                }
                false
            }
            Self::Name { done: Some(_), .. } => false,
            Self::Name { named, done } => match named.recv_timeout(wait) {
                Ok(named) => {
                    *done = Some(named);
                    false
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => {
                    *done = Some(Err(ended()));
                    false
                }
            },
        }
    }
}

fn ended() -> CheckpointError {
    let source = std::io::Error::other("the thread that wrote it ended before");
    CheckpointError::Io { path: Checkpoints::NAME.into(), source }
}
