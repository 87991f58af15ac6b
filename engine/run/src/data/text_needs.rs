//! The memory that a run's text takes in a process.

use std::fs;
use std::path::PathBuf;

use pipezero_config::DataConfig;
use pipezero_files::records::is_json;
use pipezero_tokens::Tokenizer;
use pipezero_tokens::text::find_all;

use super::ngram::{PAIRS_AT_ONCE, PAIRS_MAX};
use super::split::BLOCK_TOKENS;
use super::stream::PART_BYTES;
use super::texts::AT_ONCE_BYTES;

/// Bytes of a text that are read at once, and tokens through which it is gone through with their marks.
const BUFFERS_BYTES: u64 = (1 << 20) + (1 << 16) * 6;

/// Bytes of an entry while pairs of tokens are counted, in a map that may be half empty.
const PAIR_BYTES: u64 = 50;

/// Different pairs of bytes.
const BYTE_PAIRS: u64 = 1 << 16;

/// Bytes that a tokenizer takes for a byte of text while it turns it into tokens: some 90 bytes for the places of its characters before and after normalisation,
/// and 140 for each token, which may be a single byte.
const TOKENIZING_BYTES: u64 = 232;

/// Bytes for a byte of a text that is cut into pieces: itself, and a token of 4 bytes in a list that may be half empty while it grows, and is copied then.
const PIECED_BYTES: u64 = 13;

/// Bytes for a byte of JSON without a tokenizer: as it was read, as a text, as a value, and as a token.
const JSON_BYTES: u64 = 8;

/// Bytes that a loaded tokenizer takes for a byte of its file: tables of tokens, of merges and of what they were read from.
const TOKENIZER_BYTES: u64 = 22;

/// Figures are rounded up to this, so that they do not move with every word of a text.
const STEP_BYTES: u64 = 1 << 20;

/// The memory that the text of a run takes in a process; pages of files, which the system caches, are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextNeeds {
    /// While the run goes on: where the parts of both sides lie.
    pub held_bytes: u64,
    /// While it is read, before ranks allocate.
    pub reading_bytes: u64,
}

/// The memory that the text of a run takes. A text that cannot be found takes nothing here, and is an error where it is read.
pub fn text_needs(config: &DataConfig) -> TextNeeds {
    if config.text.is_empty() {
        return TextNeeds::default();
    }
    let files = find_all(&config.text).unwrap_or_default();
    let length = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
    let lengths: Vec<u64> = files.iter().map(length).collect();
    let all = lengths.iter().sum::<u64>();
    // JSON is read document by document.
    let longest = files.iter().filter(|path| !is_json(path)).map(length).max().unwrap_or(0);
    let of_json = if files.iter().any(|path| is_json(path)) { AT_ONCE_BYTES * JSON_BYTES } else { 0 };
    // Each block of the rarer side parts the other side.
    let rarer = config.validation.min(1.0 - config.validation);
    let num_parts = 2.0 * rarer * all.div_ceil(BLOCK_TOKENS) as f64 + 2.0 * lengths.len() as f64;
    let held_bytes = (num_parts as u64 * PART_BYTES).next_multiple_of(STEP_BYTES);
    let of_tokenizer = config.tokenizer.as_ref().map_or(0, |path| {
        let longest = longest.min(Tokenizer::TEXT_BYTES_MAX as u64);
        // The file is read only if it matters.
        let at_once_max =
            if longest > AT_ONCE_BYTES { Tokenizer::at_once_max(path) as u64 } else { AT_ONCE_BYTES };
        let at_once = longest.min(at_once_max).max(AT_ONCE_BYTES).min(all);
        let of_pieces = if longest > at_once { longest.saturating_mul(PIECED_BYTES) } else { 0 };
        tokenizer_bytes(path)
            .saturating_mul(TOKENIZER_BYTES)
            .saturating_add(at_once.saturating_mul(TOKENIZING_BYTES))
            .saturating_add(of_pieces)
    });
    let different = if config.tokenizer.is_some() { PAIRS_MAX } else { BYTE_PAIRS };
    let counting = all.min(PAIRS_AT_ONCE).saturating_mul(8) + all.min(different) * PAIR_BYTES;
    let reading_bytes = BUFFERS_BYTES.saturating_add(counting).max(of_tokenizer).max(of_json);
    TextNeeds { held_bytes, reading_bytes: reading_bytes.next_multiple_of(STEP_BYTES) }
}

fn tokenizer_bytes(path: &std::path::Path) -> u64 {
    let file = if path.is_dir() { path.join(Tokenizer::FILE) } else { path.to_owned() };
    fs::metadata(file).map_or(0, |found| found.len())
}
