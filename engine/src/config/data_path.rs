//! What the files are that a run file names as data.

use std::path::Path;

use crate::tokens::TokenType;

/// A file that `data` names, its path made to start at the run file's folder.
#[derive(Clone, Copy, Debug)]
pub enum DataPath<'a> {
    /// A file, folder or glob of text.
    Text(&'a Path),
    /// A file of tokens.
    Tokens {
        /// It, or the prefix of a `.bin`.
        path: &'a Path,
        /// How it stores tokens, if it does not say so.
        token_type: TokenType,
    },
    /// A tokenizer.json, or a folder with one.
    Tokenizer {
        /// It.
        path: &'a Path,
        /// The token by whose name it is to end documents.
        end_token: Option<&'a str>,
    },
}
