//! A small file next to a file of tokens, which names the tokenizer that made the tokens and says whether they are conversations.
//!
//! Megatron's index has no place for it, and readers of that format count its bytes. So it lies beside the two files, and may be left behind when they are copied:
//! then nothing is known, as of files that other programs made.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::input::read_text;

/// The tokenizer that made a file of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The path of its file when the tokens were made.
    pub tokenizer: PathBuf,
    /// The checksum of what it said, in hexadecimal: JSON has no whole numbers of 64 bits.
    content_checksum: String,
    /// Tokens of the file that it made. With another number the file beside it was made by something else since.
    num_tokens: u64,
    /// Whether some of the documents are conversations, which have nothing to do with each other.
    #[serde(default)]
    pub conversations: bool,
}

impl MadeBy {
    /// A path, and a few numbers.
    const BYTES_MAX: u64 = 1 << 20;

    /// The ending of its name, which replaces `.bin`.
    pub const ENDING: &str = "tokenizer-of-tokens.json";

    /// Describes so many tokens that the tokenizer at a path made, by the checksum of what its file says.
    pub fn new(tokenizer: &Path, content_checksum: u64, num_tokens: u64, conversations: bool) -> Self {
        Self {
            tokenizer: std::path::absolute(tokenizer).unwrap_or_else(|_| tokenizer.to_owned()),
            content_checksum: digits(content_checksum),
            num_tokens,
            conversations,
        }
    }

    /// The path of the file for a `.bin`.
    pub fn path(bin: &Path) -> PathBuf {
        bin.with_extension(Self::ENDING)
    }

    /// Reads the file for a `.bin` with so many tokens; `None` if it cannot be read or describes other tokens.
    pub fn beside(bin: &Path, num_tokens: u64) -> Option<Self> {
        Self::read(bin).filter(|made| made.num_tokens == num_tokens)
    }

    fn read(bin: &Path) -> Option<Self> {
        serde_json::from_str(&read_text(&Self::path(bin), Self::BYTES_MAX).ok()?).ok()
    }

    /// Whether a `.bin` that is named itself, by its `.idx`, or by the prefix of both holds conversations, as the file beside it says. That file is left
    /// behind by copies, and then nothing is known.
    pub fn has_conversations(named: &Path) -> bool {
        let bin = match named.extension() {
            Some(ending) if ending == "idx" && named.is_file() => named.with_extension("bin"),
            _ if named.is_file() => named.to_owned(),
            _ => named.with_added_extension("bin"),
        };
        let num_bytes = |made: &Self| fs::metadata(&bin).map(|found| found.len() / made.num_tokens.max(1));
        // Tokens have two bytes or four. With another length the `.bin` was made by something else since.
        Self::read(&bin).is_some_and(|made| {
            made.conversations && num_bytes(&made).is_ok_and(|bytes| [2, 4].contains(&bytes))
        })
    }

    /// Whether it was another tokenizer, as far as the checksum of what it said is concerned.
    pub fn is_another_than(&self, content_checksum: u64) -> bool {
        self.content_checksum != digits(content_checksum)
    }
}

fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}
