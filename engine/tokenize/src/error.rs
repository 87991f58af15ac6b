//! Why texts were not tokenized.

use std::io;
use std::path::{Path, PathBuf};

use pipezero_tokens::TokenizerError;
use pipezero_tokens::documents::DocumentFault;
use pipezero_tokens::text::TextError;

/// Why texts were not tokenized.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizeError {
    /// The inputs cannot be found.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// It has no token that ends documents.
    #[error(
        "`{}` does not say which token ends a document: name it with --end-token, such as --end-token '<|endoftext|>', or write none \
         with --no-end-token",
        .0.display()
    )]
    NoEndToken(PathBuf),
    /// A separator of texts, of which there are none.
    #[error(
        "--separator stands between the documents of a text, but each of the files ({num_files}) is JSON, of which each object is one; leave it out"
    )]
    NoText {
        /// Files of the inputs.
        num_files: usize,
    },
    /// A field of JSON, of which there is none.
    #[error(
        "{option} names a field of JSON, but none of the files ({num_files}) is .json, .jsonl or .ndjson; give them that ending, or leave it out"
    )]
    NoJson {
        /// What names it.
        option: &'static str,
        /// Files of the inputs.
        num_files: usize,
    },
    /// A line of JSON, or a piece of text, that is no document.
    #[error("{}:{line}: {fault}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The line that it begins with, from 1.
        line: u64,
        /// What is wrong, and a repair.
        fault: Box<DocumentFault>,
    },
    /// The system refused.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The files are there.
    #[error("`{}` exists; name another --out, or replace it with --overwrite", .0.display())]
    Exists(PathBuf),
    /// Work was interrupted.
    #[error(
        "`{}` is of work that was interrupted: go on with it with --resume, or begin again with --overwrite", .0.display()
    )]
    Interrupted(PathBuf),
    /// The work was asked to stop, and what has been done is kept.
    #[error("stopped after {num_bytes} of {total_bytes} bytes; go on with --resume")]
    Stopped {
        /// Bytes of the inputs that have become tokens.
        num_bytes: u64,
        /// Bytes of all inputs.
        total_bytes: u64,
    },
    /// What was begun was something else.
    #[error("`{}` was begun with {what}; go on as it was begun, or begin again with --overwrite", path.display())]
    Differs {
        /// The file that says how it was begun.
        path: PathBuf,
        /// What is different.
        what: String,
    },
    /// An input that has become tokens is not what it was.
    #[error(
        "`{}` has changed since it was tokenized: it had {then} bytes, and {}; begin again with --overwrite",
        path.display(),
        if then == now { "was written again".to_owned() } else { format!("has {now}") }
    )]
    Changed {
        /// The input.
        path: PathBuf,
        /// Bytes that it had.
        then: u64,
        /// Bytes that it has.
        now: u64,
    },
    /// An input of which a part has become tokens has another beginning.
    #[error(
        "the first {num_bytes} bytes of `{}` are not those that were tokenized; begin again with --overwrite", path.display()
    )]
    ChangedBefore {
        /// The input.
        path: PathBuf,
        /// Bytes of the part.
        num_bytes: u64,
    },
    /// A mistake in an input, or an input that cannot be read, before which work has been done.
    #[error(
        "{error}. The documents before it are kept: correct the file and go on with --resume; with other options, begin again with \
         --overwrite"
    )]
    Kept {
        /// What is wrong.
        error: Box<TokenizeError>,
    },
    /// The file that says how far the work is cannot be used.
    #[error("`{}` cannot be used: {reason}; begin again with --overwrite", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process writes the same files.
    #[error("`{}` is being written by another process", .0.display())]
    InUse(PathBuf),
    /// An input is a file that the work writes itself.
    #[error("`{}` is written by the work itself, which --out names; name another --out", .0.display())]
    OwnFile(PathBuf),
    /// Nothing was found.
    #[error("the inputs hold no document: all {num_files} files are empty")]
    Nothing {
        /// Files that were read.
        num_files: usize,
    },
}

impl TokenizeError {
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }

    /// Whether the input is at fault, and not the system.
    pub fn is_of_input(&self) -> bool {
        if let Self::Kept { error } = self {
            return error.is_of_input();
        }
        let is_of_outputs =
            matches!(self, Self::Exists(_) | Self::Interrupted(_) | Self::InUse(_) | Self::Stopped { .. });
        !(is_of_outputs || matches!(self, Self::Io { .. }))
    }
}
