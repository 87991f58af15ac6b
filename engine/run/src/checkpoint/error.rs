//! Why a checkpoint cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

use pipezero_config::hugging_face::HuggingFaceError;
use rustix::io::Errno;

use super::folder_name::step_of;
use crate::unusable_value::UnusableValue;

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not as it was written.
    #[error("{}: {reason}; the checkpoint is damaged: take an earlier one, or another copy of it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What shows it.
        reason: String,
    },
    /// It has a value with which no run can go on, although it is as it was written.
    #[error(
        "{0}; the run had diverged: go on from an earlier checkpoint with --step, at a lower learning rate"
    )]
    Unusable(Box<UnusableValue>),
    /// The list of the run's starts is not as it was written.
    #[error(
        "{}: {reason}; without this file the newest checkpoint is taken, whichever start of the run wrote it: remove the file, and choose another checkpoint \
         with --step N if the run was begun anew from an earlier step",
        path.display()
    )]
    Starts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Its weights cannot be written for transformers.
    #[error(transparent)]
    Published(#[from] HuggingFaceError),
    /// It is of a later step than the run's last.
    #[error(
        "{} is of step {step}, and the run has {num_steps}: raise `steps`, or go on from an earlier checkpoint with --step",
        path.display()
    )]
    Beyond {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Its step.
        step: u64,
        /// Steps of the run.
        num_steps: u64,
    },
    /// Another host has a file.
    #[error(
        "{} has no {needed}: it is in one of {files}; copy them here, or write checkpoints to a folder that all hosts share",
        folder.display()
    )]
    Elsewhere {
        /// The checkpoint's folder on this host.
        folder: PathBuf,
        /// What was to be read.
        needed: String,
        /// The files that are not here, with their hosts.
        files: String,
    },
    /// All checkpoints of a run are damaged.
    #[error("{newest}; the earlier ones are damaged too: {earlier}")]
    NoneSound {
        /// Why the newest cannot be read.
        newest: Box<Self>,
        /// What of the others is damaged.
        earlier: String,
    },
    /// Its folder is not on this host: another host may have it, or it has been removed.
    #[error("{} is not there: if another host has it, copy it here, or write checkpoints to a folder that all hosts share", .0.display())]
    Missing(PathBuf),
    /// Another process cannot read it; its words.
    #[error("{words}")]
    Refused {
        /// The step of the checkpoint.
        step: u64,
        /// The words.
        words: String,
    },
    /// An earlier checkpoint cannot be removed; the new one is complete.
    #[error("{0}; the new checkpoint is complete, and earlier ones stay")]
    NotRemoved(Box<Self>),
    /// There is none.
    #[error("{} has {reason}; name a run directory that has one, or its folder", path.display())]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
        /// What is missing, and what is there instead.
        reason: String,
    },
    /// The list of several engines' checkpoints has some that the engines which are to be written have not gone on from.
    #[error(
        "{} lists checkpoints that these engines have not gone on from, and which would be replaced: resume from them first, or write to another folder",
        path.display()
    )]
    NotGoneOn {
        /// The list.
        path: PathBuf,
    },
    /// Another system wrote it.
    #[error(
        "{} is a checkpoint of {name}, whose optimizer state is not read; turn it into Hugging Face weights, as with {way}",
        path.display()
    )]
    OtherSystem {
        /// The folder.
        path: PathBuf,
        /// The system.
        name: &'static str,
        /// What turns its checkpoints into weights.
        way: &'static str,
    },
    /// Another version wrote it.
    #[error(
        "{}: it is of version {found} of the format, and this program reads version {known}: resume with the program that wrote it",
        path.display()
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that is read.
        known: u64,
    },
    /// It holds another model than the run.
    #[error("{}: {reason}; the run file describes another model than the checkpoint holds", path.display())]
    OtherModel {
        /// The checkpoint's folder.
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
    /// Its optimizer keeps another state than that of the run.
    #[error(
        "{}: it holds {found} of each parameter, and the run's optimizer keeps {needed}: resume with the optimizer that it was \
         trained with, or start from its weights alone with --init",
        path.display()
    )]
    OtherOptimizer {
        /// The checkpoint's folder.
        path: PathBuf,
        /// Names of what it holds.
        found: String,
        /// Names of what the run keeps.
        needed: String,
    },
    /// It was written while other parameters were trained.
    #[error(
        "{}: `{name}` was {} when it was written, and `train_only` of the run has it {}: resume with the parameters that \
         were trained, or start from its weights alone with --init",
        path.display(), frozen_or_trained(*was_frozen), frozen_or_trained(!*was_frozen)
    )]
    OtherTrained {
        /// The checkpoint's folder.
        path: PathBuf,
        /// The first parameter that differs.
        name: String,
        /// Whether it was not trained.
        was_frozen: bool,
    },
}

fn frozen_or_trained(is_frozen: bool) -> &'static str {
    if is_frozen { "frozen" } else { "trained" }
}

impl CheckpointError {
    /// Why none of a run's checkpoints can be read, the newest first; `None` if there are none.
    pub fn of_all(errors: Vec<Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let newest = errors.next()?;
        let earlier: Vec<String> = errors
            .map(|error| match error {
                Self::Damaged { path, .. } => path.display().to_string(),
                error => error.to_string(),
            })
            .collect();
        Some(match earlier.is_empty() {
            true => newest,
            false => Self::NoneSound { newest: Box::new(newest), earlier: earlier.join(", ") },
        })
    }

    /// Whether an earlier checkpoint may do: this one is damaged, or the disk does not give it back.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Missing(_) => true,
            Self::Io { .. } => self.step_to_keep().is_some(),
            _ => false,
        }
    }

    /// The step of a checkpoint that may be whole, and so is not removed: a disk, or a server of files, does not give it back now, or another process cannot read
    /// its copy. Missing rights and limits of this process are no such error, since they would be met again with each earlier checkpoint.
    pub fn step_to_keep(&self) -> Option<u64> {
        let (path, source) = match self {
            Self::Refused { step, .. } => return Some(*step),
            Self::Missing(path) => return path.file_name()?.to_str().and_then(step_of),
            Self::Io { path, source } => (path, source),
            _ => return None,
        };
        let errors = [Errno::IO, Errno::STALE, Errno::LOOP, Errno::NXIO, Errno::REMOTEIO, Errno::TIMEDOUT];
        let is_unreadable = errors.iter().any(|error| source.raw_os_error() == Some(error.raw_os_error()));
        let names = path.ancestors().filter_map(|path| path.file_name()?.to_str());
        is_unreadable.then(|| names.into_iter().find_map(step_of)).flatten()
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }

    pub(super) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}
