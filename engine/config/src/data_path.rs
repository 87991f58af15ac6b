//! What the files are that a run file names as data.

use std::path::Path;

/// A file that `data` names, its path made to start at the run file's folder.
#[derive(Clone, Copy, Debug)]
pub enum DataPath<'a> {
    /// A file, folder or glob of text.
    Text(&'a Path),
    /// A file of tokens, or the prefix of a `.bin`.
    Tokens(&'a Path),
    /// A tokenizer.json, or a folder with one.
    Tokenizer(&'a Path),
}
