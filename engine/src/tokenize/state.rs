//! What has been done, in a file beside the tokens: from it, work that was interrupted goes on.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::error::TokenizeError;
use super::options::Form;
use super::reader::Place;
use crate::files::input::read_text;
use crate::files::partial::{Existing, PartialFile};
use crate::tokens::Written;

/// What has been done, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) version: u32,
    pub(super) begun_with: BegunWith,
    pub(super) next: Place,
    /// Bytes of the inputs up to there.
    pub(super) num_bytes: u64,
    pub(super) written: Written,
}

/// What the tokens depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BegunWith {
    pub(super) inputs: Vec<Input>,
    pub(super) tokenizer_checksum: u64,
    pub(super) end_token: Option<u32>,
    pub(super) form: Form,
}

/// A file, as far as it can be told without reading it whether it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) path: String,
    pub(super) num_bytes: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub(super) changed_ns: u64,
}

impl Input {
    pub(super) fn of(path: &Path) -> Result<Self, TokenizeError> {
        let found = fs::metadata(path).map_err(TokenizeError::io(path))?;
        let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            path: path.display().to_string(),
            num_bytes: found.len(),
            changed_ns: changed.map_or(0, |since| since.as_nanos() as u64),
        })
    }
}

impl State {
    pub(super) const VERSION: u32 = 1;

    /// A million inputs with long paths.
    const BYTES_MAX: u64 = 1 << 30;

    pub(super) fn read(path: &Path) -> Result<Self, TokenizeError> {
        let fault = |reason| TokenizeError::State { path: path.to_owned(), reason };
        let text = read_text(path, Self::BYTES_MAX).map_err(|error| {
            if error.is_missing() {
                TokenizeError::NothingToResume(path.to_owned())
            } else {
                fault(error.to_string())
            }
        })?;
        let state: Self = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
        if state.version != Self::VERSION {
            return Err(fault(format!(
                "it is of version {}, and version {} is known",
                state.version,
                Self::VERSION
            )));
        }
        Ok(state)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), TokenizeError> {
        let text = serde_json::to_string_pretty(self).expect("numbers, strings and lists of them");
        let file = PartialFile::create(path, Existing::Replaced);
        file.and_then(|file| file.finish_with(&text)).map_err(TokenizeError::io(path))
    }
}

impl BegunWith {
    /// What is different, in words; `None` if nothing is.
    pub(super) fn differs_from(&self, now: &Self) -> Option<String> {
        if self.inputs.len() != now.inputs.len() {
            return Some(format!("{} files, and there are {}", self.inputs.len(), now.inputs.len()));
        }
        let changed = self.inputs.iter().zip(&now.inputs).find(|(then, now)| then != now);
        if let Some((then, now)) = changed {
            let Input { path, num_bytes, .. } = then;
            return Some(if *path == now.path {
                format!("`{path}` of {num_bytes} bytes, which has changed since")
            } else {
                format!("`{path}` where now is `{}`", now.path)
            });
        }
        if self.tokenizer_checksum != now.tokenizer_checksum {
            return Some("another tokenizer".to_owned());
        }
        if self.end_token != now.end_token {
            return Some("another token that ends documents".to_owned());
        }
        (self.form != now.form).then(|| "another separator or other fields".to_owned())
    }
}
