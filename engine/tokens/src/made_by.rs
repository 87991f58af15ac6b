//! A small file next to a file of tokens, which names the tokenizer that made the tokens.
//!
//! Megatron's index has no place for it, and readers of that format count its bytes. So it lies beside the two files, and may be left behind when they are copied:
//! then nothing is known, as of files that other programs made.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::tokenizer::Tokenizer;
use super::writer::Written;

/// The tokenizer that made a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The path of its file when the tokens were made.
    pub tokenizer: PathBuf,
    /// The checksum of what it said ([`Tokenizer::content_checksum`]), in hexadecimal: JSON has no whole numbers of 64 bits.
    content_checksum: String,
    /// Tokens of the file that it made. With another number the file beside it was made by something else since.
    num_tokens: u64,
}

impl MadeBy {
    /// The ending of its name, which replaces `.bin`.
    pub const ENDING: &str = "tokenizer-of-tokens.json";

    /// Describes tokens that a tokenizer made.
    pub fn new(tokenizer: &Tokenizer, written: Written) -> Self {
        let path = tokenizer.path();
        Self {
            tokenizer: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            content_checksum: digits(tokenizer.content_checksum()),
            num_tokens: written.num_tokens,
        }
    }

    /// The path of the file for a `.bin`.
    pub fn path(bin: &Path) -> PathBuf {
        bin.with_extension(Self::ENDING)
    }

    /// Reads the file for a `.bin` with so many tokens; `None` if it cannot be read or describes other tokens.
    pub(super) fn beside(bin: &Path, num_tokens: u64) -> Option<Self> {
        let path = Self::path(bin);
        // To open a pipe would wait for its writer.
        fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
        let made: Self = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
        (made.num_tokens == num_tokens).then_some(made)
    }

    /// Whether it was another tokenizer, as far as what it said is concerned.
    pub fn is_another_than(&self, tokenizer: &Tokenizer) -> bool {
        self.content_checksum != digits(tokenizer.content_checksum())
    }
}

fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}
