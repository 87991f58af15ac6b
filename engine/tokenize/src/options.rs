//! What is asked for.

use std::path::PathBuf;

use pipezero_tokens::documents::Fields;
use serde::{Deserialize, Serialize};

/// What is read, by which tokenizer, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// Files, folders and globs.
    pub inputs: Vec<PathBuf>,
    /// A tokenizer.json, or a folder with one.
    pub tokenizer: PathBuf,
    /// What ends a document.
    pub end: End,
    /// Path of the files without their endings.
    pub prefix: PathBuf,
    /// How documents are found in the inputs.
    pub form: Form,
    /// Threads that tokenize.
    pub num_threads: usize,
    /// Bytes of text after which what has been done is kept.
    pub save_every: u64,
    /// What becomes of files that are there.
    pub start: Start,
}

/// What ends a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The token that the tokenizer has for it.
    Known,
    /// This token.
    Named(String),
    /// Nothing.
    None,
}

/// How documents are found in the inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// What stands between the documents of a file of text; without it, a file is a document.
    pub separator: Option<String>,
    /// Which fields of an object in JSON are a document.
    pub fields: Fields,
    /// Whether the tokenizer's chat template makes texts of conversations. Without it, a prompt and its completion are texts as they are.
    pub chat_template: bool,
}

impl Default for Form {
    fn default() -> Self {
        Self { separator: None, fields: Fields::default(), chat_template: true }
    }
}

/// What becomes of files that are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// They are kept, and nothing is written.
    New,
    /// Work that was interrupted goes on.
    Resume,
    /// They are replaced.
    Overwrite,
}
