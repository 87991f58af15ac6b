//! What can be wrong with a file of tokens.

use std::io;
use std::path::{Path, PathBuf};

use pipezero_config::TokenType;

/// Why a file of tokens cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("`{}`: {fault}", path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: TokenFault,
}

/// What is wrong with a file of tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFault {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// There is nothing of that name.
    #[error(
        "there is neither this file nor, for a prefix, one with .bin; name a `.bin` file, or the prefix of a `.bin` and a `.idx`, as \
         `pipezero tokenize` writes them"
    )]
    Missing,
    /// There is nothing of that name, and it looks like a pattern.
    #[error(
        "there is no such file; patterns are not expanded in lists of files of tokens: name each `.bin` or prefix"
    )]
    Pattern,
    /// It is a folder.
    #[error("it is a folder; name the files in it, each by its `.bin` or its prefix")]
    Folder,
    /// Reading it may never end.
    #[error("it is no regular file; name a `.bin` file, or the prefix of a `.bin` and a `.idx`")]
    NotAFile,
    /// It does not begin as an index does.
    #[error(
        "it does not begin with MMIDIDX, as Megatron's index of a .bin does; write both again with `pipezero tokenize`"
    )]
    NotAnIndex,
    /// The index is of another byte order.
    #[error(
        "its numbers are big-endian; it was written on another kind of machine, or swapped: write it again here"
    )]
    Swapped,
    /// The index is of a version that is not known.
    #[error(
        "it is version {version} of Megatron's index, and version 1 is known; write it again with `pipezero tokenize`"
    )]
    Version {
        /// What it says.
        version: u64,
    },
    /// llm.c's header of a version that is not known.
    #[error(
        "it begins as a file of llm.c and is of version {version}, and version {known} is known; write it with llm.c's dev/data"
    )]
    LlmCVersion {
        /// What it says.
        version: u32,
        /// What is known.
        known: u32,
    },
    /// A prefix whose index is not there.
    #[error(
        "there is no `.idx` beside it; copy that too, or name the `.bin` itself to read it without documents"
    )]
    NoIndex,
    /// Its elements are no tokens.
    #[error(
        "its elements are of type {code}, and whole numbers are types 1 to 5 and 8; tokens are no fractions"
    )]
    TypeCode {
        /// Megatron's code.
        code: u8,
    },
    /// It ends too early, or goes on too long.
    #[error(
        "it has {actual} bytes, but {what} need {expected}; it was cut short, or belongs to another file: copy or write it again"
    )]
    Length {
        /// Bytes that it has.
        actual: u64,
        /// Bytes that it must have.
        expected: u128,
        /// What needs them.
        what: String,
    },
    /// Entries of the index contradict each other.
    #[error("{what}; the index is damaged: write it and its .bin again")]
    Index {
        /// Which entry, and the rule.
        what: String,
    },
    /// Its length is no whole number of tokens.
    #[error(
        "its {num_bytes} bytes are no whole number of {token_type} tokens; was it cut short, or is its type another (`data.token_type`)?"
    )]
    Fraction {
        /// Bytes of tokens.
        num_bytes: u64,
        /// Their type.
        token_type: TokenType,
    },
    /// It begins as files of another kind do.
    #[error("it holds no tokens: it is {kind}")]
    OtherFile {
        /// What it is, and what to do with it.
        kind: &'static str,
    },
    /// Its tokens have more bytes than they are read with.
    #[error(
        "it is read as {token_type}, and begins as tokens do that are stored as {stored}; write \"token_type\": \"{stored}\" in `data`"
    )]
    Wider {
        /// How its tokens seem to be stored.
        stored: TokenType,
        /// What they are read as.
        token_type: TokenType,
    },
    /// It has no token.
    #[error("it holds no token; leave it out, or write it again")]
    Empty,
    /// A token that the model does not know.
    #[error(
        "token {token} at token {position} (byte {offset}) is beyond vocab_size {vocab_size}; the file is of another tokenizer or of \
         another `data.token_type` or byte order, or the model needs a larger `vocab_size`"
    )]
    Token {
        /// The token.
        token: i64,
        /// Its index in the file.
        position: u64,
        /// Where it begins in the file.
        offset: u64,
        /// V.
        vocab_size: usize,
    },
}

impl TokenFileError {
    pub(super) fn new(path: &Path, fault: impl Into<TokenFault>) -> Self {
        Self { path: path.to_owned(), fault: fault.into() }
    }
}
