//! A checkpoint that is not complete yet, as one process knows it.

use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};

use crate::checkpoint::{CheckpointError, Checkpoints, FileRecord, Manifest, NewCheckpoint};

/// A checkpoint that is not complete yet.
#[derive(Debug)]
pub(in crate::engine) struct Writing {
    pub(super) place: Place,
    pub(super) awaited: Awaited,
}

/// The folder of a process's ranks.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// In the one process that makes the folder.
    pub(super) new: Option<NewCheckpoint>,
    /// The host, if not all processes see the same folder.
    pub(super) host: Option<String>,
    /// Which of the folders it is.
    pub(super) number: usize,
}

impl Place {
    /// Removes what has been written.
    pub(super) fn abandon(self) {
        if let Some(new) = self.new {
            new.abandon();
        }
    }
}

/// What a process waits for before the next thing is done with a checkpoint.
#[derive(Debug)]
pub(super) enum Awaited {
    /// The files of its ranks; then the manifest is written, which says all but the files.
    Files { files: Files, manifest: Box<Manifest> },
    /// The manifest; then the folder gets its name.
    Manifest(Work),
    /// The removal of the oldest checkpoint; then all is done.
    Removal(Work),
}

/// The files of a process's ranks, as far as they are written.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) written: Receiver<Result<FileRecord, CheckpointError>>,
    pub(super) num_missing: usize,
    pub(super) found: Vec<Result<FileRecord, CheckpointError>>,
}

/// Something that a thread does to the folder; nothing, in a process that does not make it.
#[derive(Debug)]
pub(super) struct Work {
    done: Receiver<Result<(), CheckpointError>>,
    /// What it came to, once that is known.
    found: Option<Result<(), CheckpointError>>,
    thread: Option<JoinHandle<()>>,
}

impl Awaited {
    /// Whether something is still missing after so long.
    pub(super) fn is_waiting(&mut self, wait: Duration) -> bool {
        match self {
            Self::Files { files, .. } => files.is_waiting(wait),
            Self::Manifest(work) | Self::Removal(work) => work.is_waiting(wait),
        }
    }
}

impl Files {
    fn is_waiting(&mut self, wait: Duration) -> bool {
        while self.num_missing > 0 {
            match self.written.recv_timeout(wait) {
                Ok(file) => {
                    self.num_missing -= 1;
                    self.found.push(file);
                }
                Err(RecvTimeoutError::Timeout) => return true,
                // A thread that panicked took its rank's copy with it; that rank says so at the next checkpoint.
                Err(RecvTimeoutError::Disconnected) => {
                    self.num_missing = 0;
                    self.found.push(Err(ended()));
                }
            }
        }
        false
    }
}

impl Work {
    /// Starts a thread that does something with the checkpoint that this process makes, if it makes one.
    pub(super) fn start<W>(place: &Place, work: W) -> Self
    where
        W: FnOnce(NewCheckpoint) -> Result<(), CheckpointError> + Send + 'static,
    {
        let (report, done) = bounded(1);
        let Some(new) = place.new.clone() else {
            return Self { done, found: Some(Ok(())), thread: None };
        };
        let (sender, receiver) = bounded::<(NewCheckpoint, W)>(1);
        let spawned = std::thread::Builder::new().name("checkpoint".to_owned()).spawn({
            move || {
                if let Ok((new, work)) = receiver.recv() {
                    let _ = report.send(work(new));
                }
            }
        });
        match spawned {
            Ok(thread) => {
                sender.send((new, work)).unwrap_or_else(|_| unreachable!("the thread waits for it"));
                Self { done, found: None, thread: Some(thread) }
            }
            // A system that starts no more threads: training waits instead.
            Err(_) => Self { done, found: Some(work(new)), thread: None },
        }
    }

    fn is_waiting(&mut self, wait: Duration) -> bool {
        if self.found.is_none() {
            self.found = match self.done.recv_timeout(wait) {
                Ok(found) => Some(found),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Err(ended())),
            };
        }
        self.found.is_none()
    }

    /// What it came to.
    pub(super) fn result(mut self) -> Result<(), CheckpointError> {
        self.found.take().expect("nobody asks before it is known")
    }
}

impl Drop for Work {
    /// No other checkpoint is begun in the folder while this thread works there.
    fn drop(&mut self) {
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn ended() -> CheckpointError {
    let source = std::io::Error::other("the thread that wrote it ended before");
    CheckpointError::Io { path: Checkpoints::NAME.into(), source }
}
