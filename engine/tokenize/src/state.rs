//! What has been done, in a file beside the tokens: from it, work that was interrupted goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pipezero_files::input::read_text;
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_tokens::chat::Date;
use pipezero_tokens::{DocumentWriter, Written};
use serde::{Deserialize, Serialize};

use super::error::TokenizeError;
use super::options::Form;
use super::outputs::Outputs;
use super::reader::Place;

/// What has been done, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) version: u32,
    pub(super) begun_with: BegunWith,
    /// The date that a chat template gets.
    pub(super) date: Date,
    pub(super) next: Place,
    /// Bytes of the inputs up to there.
    pub(super) num_bytes: u64,
    pub(super) written: Written,
    /// Documents of these in which someone answers.
    pub(super) num_conversations: u64,
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
    pub(super) stamp: Stamp,
}

/// What tells, without reading it, whether a file is the one that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stamp {
    /// Bytes.
    pub(super) num_bytes: u64,
    /// When it was last changed, in nanoseconds since 1970; 0 where that is not known.
    changed_ns: u64,
}

impl Input {
    pub(super) fn of(path: &Path) -> Result<Self, TokenizeError> {
        let found = fs::metadata(path).map_err(TokenizeError::io(path))?;
        let changed = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let changed_ns = changed.map_or(0, |since| since.as_nanos() as u64);
        let stamp = Stamp { num_bytes: found.len(), changed_ns };
        Ok(Self { path: path.display().to_string(), stamp })
    }
}

impl State {
    pub(super) const VERSION: u32 = 2;

    /// A million inputs with long paths.
    const BYTES_MAX: u64 = 1 << 30;

    pub(super) fn read(path: &Path) -> Result<Self, TokenizeError> {
        let fault = |reason| TokenizeError::State { path: path.to_owned(), reason };
        let text = read_text(path, Self::BYTES_MAX).map_err(|error| fault(error.to_string()))?;
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

    /// Keeps what has been done up to a place, and so many bytes of the inputs: tokens first, and then that they are there.
    pub(super) fn keep(
        &mut self,
        reached: (Place, u64),
        writer: &mut DocumentWriter,
        outputs: &Outputs,
    ) -> Result<(), TokenizeError> {
        self.written = writer.sync().map_err(TokenizeError::io(&outputs.partial))?;
        (self.next, self.num_bytes) = reached;
        self.write(&outputs.state)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), TokenizeError> {
        let text = serde_json::to_string_pretty(self).expect("numbers, strings and lists of them");
        let file = PartialFile::create(path, Existing::Replaced);
        file.and_then(|file| file.finish_with(text)).map_err(TokenizeError::io(path))
    }
}

impl BegunWith {
    /// Refuses to go on with something else than was begun, as far as `next` tells what has been done; `path` is the file that says so. Inputs that
    /// are still to be read may have become others: the reader looks at the one in which it goes on.
    pub(super) fn check(&self, now: &Self, next: Place, path: &Path) -> Result<(), TokenizeError> {
        let differs = |what: String| Err(TokenizeError::Differs { path: path.to_owned(), what });
        let num_begun = next.file + usize::from(next.offset > 0);
        if now.inputs.len() < num_begun {
            return differs(format!("{num_begun} files, and there are {}", now.inputs.len()));
        }
        let begun = self.inputs.iter().zip(&now.inputs).take(num_begun);
        if let Some((then, now)) = begun.clone().find(|(then, now)| then.path != now.path) {
            return differs(format!("`{}` where now is `{}`", then.path, now.path));
        }
        if let Some((then, now)) = begun.take(next.file).find(|(then, now)| then.stamp != now.stamp) {
            let path = PathBuf::from(&now.path);
            let [then, now] = [then, now].map(|input| input.stamp.num_bytes);
            return Err(TokenizeError::Changed { path, then, now });
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
