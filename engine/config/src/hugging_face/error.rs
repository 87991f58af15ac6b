//! What can be wrong with a folder of transformers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder of transformers was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HuggingFaceError {
    /// A file is not there, or cannot be read as what it is to be.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is there instead, and a repair.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A config.json that is no JSON, or a field that is missing, wrong, or asks for what is not offered.
    #[error("{}", listed(faults))]
    Config {
        /// All that is wrong, in the order of the file.
        faults: Vec<ConfigFault>,
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

/// One thing that is wrong with a config.json or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFault {
    /// File, line and column.
    pub place: String,
    /// Field, value and rule.
    pub message: String,
    /// What to write instead, where that can be said.
    pub repair: Option<String>,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        self.repair.as_ref().map_or(Ok(()), |repair| write!(f, "; {repair}"))
    }
}

/// A line for each.
fn listed(faults: &[ConfigFault]) -> String {
    let lines: Vec<String> = faults.iter().map(ConfigFault::to_string).collect();
    lines.join("\n")
}

impl HuggingFaceError {
    /// One thing that is wrong with a file of JSON.
    pub(super) fn config(place: impl ToString, message: impl Into<String>) -> Self {
        let fault = ConfigFault { place: place.to_string(), message: message.into(), repair: None };
        Self::Config { faults: vec![fault] }
    }

    pub(super) fn tensors(path: &Path, reason: impl Into<String>) -> Self {
        Self::Tensors { path: path.to_owned(), reason: reason.into() }
    }

    /// A model of a family that transformers does not have.
    pub fn of_family(family: &str) -> Self {
        Self::NoArchitecture { what: format!("a model of family \"{family}\"") }
    }

    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }

    pub(super) fn unreadable(path: &Path, reason: impl ToString) -> Self {
        Self::Unreadable { path: path.to_owned(), reason: reason.to_string() }
    }
}
