//! What has been done, in a file beside the tokens: from it, work that was interrupted goes on.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::TokenizeError;
use super::options::Form;
use super::reader::Place;
use super::version::Version;
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

/// A file that is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub(super) path: String,
    pub(super) version: Version,
}

impl Input {
    pub(super) fn of(path: &Path) -> Result<Self, TokenizeError> {
        let version = Version::of(path).map_err(TokenizeError::io(path))?;
        Ok(Self { path: path.display().to_string(), version })
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
    /// Refuses to go on with something else behind `num_done` inputs; `path` is the file that says what was begun. The other inputs may have
    /// become others: the reader looks at the one in which it goes on.
    pub(super) fn check(&self, now: &Self, num_done: usize, path: &Path) -> Result<(), TokenizeError> {
        let differs = |what: String| Err(TokenizeError::Differs { path: path.to_owned(), what });
        if self.inputs.len() != now.inputs.len() {
            return differs(format!("{} files, and there are {}", self.inputs.len(), now.inputs.len()));
        }
        let mut inputs = self.inputs.iter().zip(&now.inputs);
        if let Some((then, now)) = inputs.clone().find(|(then, now)| then.path != now.path) {
            return differs(format!("`{}` where now is `{}`", then.path, now.path));
        }
        let mut done = inputs.by_ref().take(num_done);
        if let Some((then, now)) = done.find(|(then, now)| then.version != now.version) {
            let [then, now_bytes] = [then, now].map(|input| input.version.num_bytes);
            return Err(TokenizeError::Changed { path: PathBuf::from(&now.path), then, now: now_bytes });
        }
        if self.tokenizer_checksum != now.tokenizer_checksum {
            return differs("another tokenizer".to_owned());
        }
        if self.end_token != now.end_token {
            return differs("another token that ends documents".to_owned());
        }
        if self.form != now.form {
            return differs("another separator or other fields".to_owned());
        }
        Ok(())
    }
}
