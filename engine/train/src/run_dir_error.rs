//! Why a run directory cannot be used.

use std::fmt;
use std::io;
use std::path::PathBuf;

use pipezero_files::host::LimitError;
use pipezero_plan::Bytes;
use pipezero_run::checkpoint::CheckpointError;

/// What can be done with a folder that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Whether a run can go on in it.
    pub resume: bool,
    /// Whether a run may replace it.
    pub overwrite: bool,
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.resume, self.overwrite) {
            (true, true) => {
                "go on with --resume, name another folder with --out, or replace it with --overwrite"
            }
            (true, false) => "go on with --resume, or name another folder with --out",
            (false, true) => "name another folder with --out, or replace it with --overwrite",
            (false, false) => "it is no run directory; name another folder with --out",
        })
    }
}

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// It exists already.
    #[error("{} already exists: {ways}", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
        /// What to do with it.
        ways: Ways,
    },
    /// The folder for the state of a run that an error ends exists already.
    #[error(
        "{} already exists, and may hold the state of a run that an error ended: go on with it with --resume --out {}, or name a new folder with --rescue",
        path.display(),
        path.display()
    )]
    RescueExists {
        /// The folder.
        path: PathBuf,
    },
    /// A run that is to go on has weights and no checkpoint.
    #[error(
        "{} has weights, and no checkpoint from which the run could go on: begin another run with its weights with --init {} --out DIR, or replace it \
         with --overwrite; with `checkpoint.every` in its run file a run can be gone on with",
        path.display(),
        path.display()
    )]
    WeightsAlone {
        /// The folder.
        path: PathBuf,
    },
    /// Its run was being replaced when the process that did so ended.
    #[error(
        "{} holds the rest of a run that was being replaced with --overwrite when that process ended: the same command, with --overwrite or --resume, removes \
         the rest and begins the new run",
        path.display()
    )]
    BeingRemoved {
        /// The folder.
        path: PathBuf,
    },
    /// Its weights are those of steps that the run has left.
    #[error(
        "{} is of step {step}, and the run was begun anew from an earlier step since: name a checkpoint with --step, or wait until the run has ended",
        path.display()
    )]
    LeftWeights {
        /// The weights file.
        path: PathBuf,
        /// Its step.
        step: u64,
    },
    /// The list of its starts, or a checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Some hosts see it, and some do not.
    #[error(
        "hosts {} see the run directory {} of rank 0, and hosts {} do not: mount its disk there too, name a folder that all of them share with --out, or allow hosts to have \
         their own with `checkpoint.per_host`",
        seeing.join(", "), path.display(), blind.join(", ")
    )]
    NotOnAll {
        /// The folder.
        path: PathBuf,
        /// Hosts that see it, beside that of rank 0.
        seeing: Vec<String>,
        /// Hosts that do not.
        blind: Vec<String>,
    },
    /// It holds no run.
    #[error("{} is not a run directory: it has no {file}; name the folder that `pipezero train` wrote", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// It has checkpoints and no weights.
    #[error(
        "{} has no weights.safetensors: its run has not ended, or the file was removed; name a checkpoint, such as the newest with --step {newest}, or end a run that has not \
         ended with `pipezero resume {}`",
        path.display(), path.display()
    )]
    OnlyCheckpoints {
        /// The folder.
        path: PathBuf,
        /// The newest step with a checkpoint.
        newest: u64,
    },
    /// Its run has not ended.
    #[error("{}: the run has not ended: it has no summary.json; wait for its end, or run it again", path.display())]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
    /// Its summary cannot be read.
    #[error("{}: {reason}; it is damaged: train again", path.display())]
    Summary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder to be replaced holds something that no run wrote.
    #[error("{} is left as it is: {reason}; name another folder with --out, or remove it yourself", path.display())]
    NotARun {
        /// The folder.
        path: PathBuf,
        /// What shows that it does not belong to a run.
        reason: String,
    },
    /// It is not there any more.
    #[error("{} is not the folder any more in which the run began: {source}", path.display())]
    Gone {
        /// The folder.
        path: PathBuf,
        /// What shows it.
        source: io::Error,
    },
    /// Another run writes it.
    #[error("{} is being written by another run ({holder}): wait for its end, or name another folder with --out", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The process.
        holder: String,
    },
    /// Its disk is too full.
    #[error(
        "{} has {} left on its disk, and the weights of the run alone take {}: make room, or name another folder with --out",
        path.display(),
        Bytes(*free_bytes),
        Bytes(*weights_bytes)
    )]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// What can be written there.
        free_bytes: u64,
        /// What the weights take.
        weights_bytes: u64,
    },
    /// The system lets this process write no file as long as the weights.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Its disk takes too few files.
    #[error(
        "{} is on a disk that takes {free_files} more files, and the run writes up to {needed_files}: remove some, or name another folder with --out",
        path.display()
    )]
    NoFiles {
        /// The folder.
        path: PathBuf,
        /// Files that can be made there.
        free_files: u64,
        /// Files and folders that are there at once.
        needed_files: u64,
    },
    /// The folder cannot be made.
    #[error("cannot make the run directory {}: {source}; name one with --out in a folder that can be written to", path.display())]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder for the state of a run that an error ends cannot be made.
    #[error("--rescue {} cannot be made: {source}; name a folder in one that can be written to", path.display())]
    RescueUnwritable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
