//! A copy of what a rank writes to a checkpoint, and the thread that writes it while training goes on.

use std::path::PathBuf;
use std::thread::JoinHandle;

use crossbeam::channel::{Sender, bounded};
use pipezero_comm::memory::HostValues;

use crate::checkpoint::{CheckpointError, FileRecord, Piece, ShardWriter};

/// A rank's copy, in the host's memory.
#[derive(Debug)]
pub(super) struct Staging {
    /// What can be overwritten; none while it is written.
    idle: Option<HostValues>,
    /// Writes it to a file, and hands it back.
    thread: Option<JoinHandle<HostValues>>,
}

/// A rank's file of a checkpoint that is being written while training goes on.
#[derive(Clone, Debug)]
pub(crate) struct FileToWrite {
    /// The checkpoint's folder.
    pub(crate) folder: PathBuf,
    /// Gets the file once it is on disk, or why it could not be written.
    pub(crate) written: Sender<Result<FileRecord, CheckpointError>>,
}

impl Staging {
    pub(super) fn new(values: HostValues) -> Self {
        Self { idle: Some(values), thread: None }
    }

    /// The copy, once nothing is written out of it any more.
    ///
    /// # Panics
    /// If the thread that had it has.
    pub(super) fn take(&mut self) -> HostValues {
        let written = self.thread.take().map(JoinHandle::join);
        let written = written.map(|values| values.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        written.or_else(|| self.idle.take()).expect("it is idle or written")
    }

    /// Writes the pieces of a rank, whose elements lie in the copy one behind the other.
    pub(super) fn write(&mut self, values: HostValues, rank: usize, pieces: Vec<Piece>, to: FileToWrite) {
        let copy = Copy { values, rank, pieces, to };
        let (sender, receiver) = bounded::<Copy>(1);
        let write = move || receiver.recv().expect("it is sent at once").write();
        match std::thread::Builder::new().name(format!("rank-{rank}.checkpoint")).spawn(write) {
            Ok(thread) => {
                sender.send(copy).expect("the thread waits for it");
                self.thread = Some(thread);
            }
            // A system that starts no more threads: training waits instead.
            Err(_) => self.idle = Some(copy.write()),
        }
    }
}

/// The elements of a rank's file.
struct Copy {
    values: HostValues,
    rank: usize,
    pieces: Vec<Piece>,
    to: FileToWrite,
}

impl Copy {
    fn write(self) -> HostValues {
        let Self { values, rank, pieces, to: FileToWrite { folder, written } } = self;
        let num_elements = pieces.iter().map(|piece| piece.range.len()).sum();
        let file = ShardWriter::create(&folder, rank, pieces).and_then(|mut file| {
            file.write(&values.get()[..num_elements])?;
            file.finish()
        });
        // Nobody hears of it only where the engine has ended.
        let _ = written.send(file.map_err(|source| CheckpointError::Io { path: folder, source }));
        values
    }
}

impl Drop for Staging {
    /// A file that is being written is written to its end.
    fn drop(&mut self) {
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
