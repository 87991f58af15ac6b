//! Why weights could not be written or read.

use std::path::{Path, PathBuf};

use pipezero_config::hugging_face::HuggingFaceError;

use crate::unusable_value::UnusableValue;

/// Why weights could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file could not be opened, read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a complete safetensors file.
    #[error("{}: {reason}; it is not a complete safetensors file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file has a value with which no run can begin.
    #[error("{0}; take another copy of the weights, or an earlier state of their run")]
    Unusable(Box<UnusableValue>),
    /// A folder of transformers that cannot be read, or has another model.
    #[error(transparent)]
    Published(#[from] HuggingFaceError),
    /// The file holds other parameters than the model.
    #[error("{}: {reason}; the weights belong to another model than the run file describes", path.display())]
    OtherModel {
        /// The file.
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
    /// One of the files of a folder of transformers, whose tensors have other names.
    #[error(
        "{}: it is a file of a folder of transformers; name the folder, {}, whose config.json says how its tensors are read",
        path.display(),
        folder.display()
    )]
    OfFolder {
        /// The file.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
}

impl WeightsError {
    /// Makes an error of what the system says of this file.
    pub fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }
}
