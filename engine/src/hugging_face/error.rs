//! What can be wrong with a folder of transformers.

use std::path::{Path, PathBuf};

/// Why a folder of transformers was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HuggingFaceError {
    /// A file could not be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason, or what is there instead.
        reason: String,
    },
    /// A config.json that is no JSON, or a field that is missing, wrong, or asks for what is not offered.
    #[error("{place}: {message}")]
    Config {
        /// File, line and column.
        place: String,
        /// Field, value, rule and repair.
        message: String,
    },
    /// Tensors that are damaged, or not those of the model.
    #[error("{}: {reason}", path.display())]
    Tensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and a repair.
        reason: String,
    },
    /// A model of this program that transformers has no architecture for.
    #[error("{what}: transformers has no such model; it can only be exported as pipezero's own weights")]
    NoArchitecture {
        /// What no architecture has.
        what: String,
    },
}

impl HuggingFaceError {
    pub(super) fn tensors(path: &Path, reason: impl Into<String>) -> Self {
        Self::Tensors { path: path.to_owned(), reason: reason.into() }
    }

    pub(super) fn unreadable(path: &Path, reason: impl ToString) -> Self {
        Self::Unreadable { path: path.to_owned(), reason: reason.to_string() }
    }
}
