//! A tokenizer.json of Hugging Face's tokenizers: text to tokens and back.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_files::input::{InputError, read_bytes};
use pipezero_files::records::RECORD_BYTES_MAX;
use tokenizers::{Encoding, ModelWrapper};
use xxhash_rust::xxh3::xxh3_64;

use super::bounded_time::{TimeOfCalls, within};
use super::catch_panics::catch_panic;
use super::character_maps::check_character_maps;
use super::pieces::{PIECE_BYTES, Pieces};
use super::tokenizer_bounds::Growth;
use super::tokenizer_content::content_checksum;

/// Turns text into tokens as a tokenizer.json says, special tokens that its post-processor adds included. Neither truncates nor pads, even
/// where the file says so: that is about batches of a model that was trained before, and would cut documents short.
#[derive(Debug)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    path: PathBuf,
    checksum: u64,
    content_checksum: u64,
    end_token: Option<u32>,
    growth: Growth,
    decoding: TimeOfCalls,
    /// How long texts are cut, if they are.
    pieces: Option<Pieces>,
}

/// Why there is no tokenizer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The system refused.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is larger than any tokenizer.
    #[error("`{}` has {num_bytes} bytes, and a tokenizer.json of at most {max_bytes} is read; is it another file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What it has.
        num_bytes: u64,
        /// What is read.
        max_bytes: u64,
    },
    /// It is no tokenizer.
    #[error("`{}` is no tokenizer.json that can be used: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
    /// It knows no token of a name.
    #[error("`{}` has no token \"{token}\"; {}", path.display(), known(special))]
    UnknownToken {
        /// The file.
        path: PathBuf,
        /// The name.
        token: String,
        /// Its special tokens.
        special: Vec<String>,
    },
    /// It failed at a text.
    #[error("`{}` fails at a text: {reason}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
}

fn known(special: &[String]) -> String {
    if special.is_empty() {
        return "it has no special tokens".to_owned();
    }
    let names: Vec<String> = special.iter().take(8).map(|token| format!("\"{token}\"")).collect();
    format!("its special tokens are {}{}", names.join(", "), if special.len() > 8 { ", ..." } else { "" })
}

/// Bytes of a text with which a tokenizer has little to do, however slow it is: for such a text no thread is asked.
const SHORT_BYTES: usize = 256;
/// Seconds that a text may take, and that each MiB of it may take besides: a hundred times as long as published tokenizers do.
const SECONDS_MAX: u64 = 8;
const SECONDS_OF_MIB: u64 = 30;

const PANICS: &str = "the tokenizers library panics at it";

/// What published models call the token that ends a document, in the order in which they are looked for: GPT-2, NeoX and Qwen; Llama 3; Llama
/// 2 and Mistral; Gemma.
pub(super) const END_TOKENS: [&str; 4] = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"];

impl Tokenizer {
    /// The name of its file in a folder.
    pub const FILE: &str = "tokenizer.json";

    /// Bytes of the longest text that is tokenized at once: each of its tokens takes more than a hundred bytes meanwhile.
    pub const TEXT_BYTES_MAX: usize = RECORD_BYTES_MAX;

    /// Bytes of the largest file that is read: published ones have up to 35 MB.
    pub const BYTES_MAX: u64 = 256 << 20;

    /// Looks whether there is a tokenizer.json of this name, or one in this folder, and does not read it.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(path: &Path) -> Result<(), TokenizerError> {
        metadata(&file_of(path)).map(|_| ())
    }

    /// Bytes of a text that the tokenizer of this file turns into tokens at once, at most: it takes longer texts in pieces if it can. Its model is not read. A file that
    /// cannot be read is an error where it is loaded.
    pub fn at_once_max(path: &Path) -> usize {
        let pieces = read(&file_of(path)).ok().and_then(|bytes| Pieces::of_json(&bytes));
        pieces.and_then(|pieces| pieces.longest()).unwrap_or(Self::TEXT_BYTES_MAX)
    }

    /// Reads a tokenizer.json, or that of a folder. The token that ends a document is the one of that name or, without a name, what
    /// tokenizer_config.json beside it calls `eos_token`, if the tokenizer has it, or a token with a name that published models give to it.
    ///
    /// # Errors
    /// When there is no such file, it is damaged, or knows no token of that name.
    pub fn load(path: &Path, end_token: Option<&str>) -> Result<Self, TokenizerError> {
        let path = file_of(path);
        let bytes = read(&path)?;
        let format = |reason: String| TokenizerError::Format { path: path.clone(), reason };
        check_num_values(&bytes).map_err(format)?;
        // The library panics at some texts that are no JSON, and at some that are and no tokenizer.
        let json: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| format(error.to_string()))?;
        check_character_maps(&json).map_err(|reason| format(reason.to_owned()))?;
        let growth = Growth::of(&json).map_err(format)?;
        let mut inner = catch_panic(|| tokenizers::Tokenizer::from_bytes(&bytes))
            .ok_or_else(|| format(PANICS.to_owned()))?
            .map_err(|error| format(error.to_string()))?;
        inner.with_truncation(None).map_err(|error| format(error.to_string()))?;
        inner.with_padding(None);
        if let ModelWrapper::BPE(model) = inner.get_model()
            && model.dropout.is_some_and(|dropout| dropout > 0.0)
        {
            let reason = "it drops merges at random (`model.dropout`), so the same text has other tokens each time; write null there";
            return Err(format(reason.to_owned()));
        }
        let (checksum, content_checksum) = (xxh3_64(&bytes), content_checksum(&json));
        let pieces = catch_panic(|| {
            let added = inner.get_added_tokens_decoder().into_values();
            Pieces::of(inner.get_normalizer(), inner.get_pre_tokenizer(), inner.get_post_processor(), added)
        });
        let inner = Arc::new(inner);
        let mut tokenizer = Self {
            inner,
            path,
            checksum,
            content_checksum,
            end_token: None,
            growth,
            decoding: TimeOfCalls::default(),
            pieces: pieces.flatten(),
        };
        tokenizer.end_token = match end_token {
            Some(name) => Some(tokenizer.named(name)?),
            None => {
                let beside = end_beside(&tokenizer.path).and_then(|name| tokenizer.inner.token_to_id(&name));
                beside.or_else(|| END_TOKENS.iter().find_map(|name| tokenizer.inner.token_to_id(name)))
            }
        };
        Ok(tokenizer)
    }

    fn named(&self, name: &str) -> Result<u32, TokenizerError> {
        self.inner.token_to_id(name).ok_or_else(|| {
            let added = self.inner.get_added_tokens_decoder();
            let mut special: Vec<_> = added.into_iter().filter(|(_, token)| token.special).collect();
            special.sort_unstable_by_key(|&(number, _)| number);
            TokenizerError::UnknownToken {
                path: self.path.clone(),
                token: name.to_owned(),
                special: special.into_iter().map(|(_, token)| token.content).collect(),
            }
        })
    }

    /// The same with another token that ends a document.
    pub fn ending_with(self, end_token: u32) -> Self {
        Self { end_token: Some(end_token), ..self }
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A checksum of its file.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    /// A checksum of what its file says, which does not depend on spaces and on the order of keys.
    pub fn content_checksum(&self) -> u64 {
        self.content_checksum
    }

    /// The token that ends a document, if it has one.
    pub fn end_token(&self) -> Option<u32> {
        self.end_token
    }

    /// How a token is written.
    pub fn name_of(&self, token: u32) -> Option<String> {
        self.inner.id_to_token(token)
    }

    /// One more than the largest token.
    pub fn vocab_size(&self) -> usize {
        let vocabulary = self.inner.get_vocab(true);
        vocabulary.values().max().map_or(0, |&largest| largest as usize + 1)
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// When the tokenizer has no token for a part of it and none for unknown ones.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encoded(text, true)
    }

    /// The tokens of a text that goes on: without what would end it, unless it ends so itself.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_beginning(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut tokens = self.encode(text)?;
        let is_own = self.end_token.is_some() && self.encode_rest(text)?.last() == self.end_token.as_ref();
        if !is_own && self.end_token.is_some() && tokens.last() == self.end_token.as_ref() {
            tokens.pop();
        }
        Ok(tokens)
    }

    /// The tokens of a text that goes on from another one: without the special tokens that begin or end a text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_rest(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encoded(text, false)
    }

    /// The tokens of a text without special tokens that the text does not name, each with its place in the text, in bytes.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_with_places(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        let encoding = self.bounded(text, |inner, text| inner.encode(text, false))?;
        let places = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(places).collect())
    }

    fn encoded(&self, text: &str, is_whole: bool) -> Result<Vec<u32>, TokenizerError> {
        self.encoded_by(text, is_whole, PIECE_BYTES)
    }

    /// The tokens of a text, which is cut into pieces of about so many bytes if it is longer and the tokenizer allows it.
    pub(super) fn encoded_by(
        &self,
        text: &str,
        is_whole: bool,
        piece_bytes: usize,
    ) -> Result<Vec<u32>, TokenizerError> {
        let at_once = |text: &str, is_whole: bool| {
            let encoding = self.bounded(text, move |inner, text| inner.encode_fast(text, is_whole))?;
            Ok(encoding.get_ids().to_vec())
        };
        match self.pieces.as_ref().filter(|_| text.len() > piece_bytes) {
            None => at_once(text, is_whole),
            Some(pieces) => {
                let refused = |reason: String| self.failed(&reason);
                pieces.encode(text, piece_bytes, is_whole, |piece| at_once(piece, false), refused)
            }
        }
    }

    /// How long texts are cut, if they are.
    #[cfg(test)]
    pub(super) fn pieces(&self) -> Option<&Pieces> {
        self.pieces.as_ref()
    }

    /// Calls the library with bounds of what it makes, and of the time that it takes.
    fn bounded(
        &self,
        text: &str,
        call: impl FnOnce(&tokenizers::Tokenizer, &str) -> tokenizers::Result<Encoding> + Send + 'static,
    ) -> Result<Encoding, TokenizerError> {
        self.growth.check(text.len()).map_err(|reason| self.failed(&reason))?;
        // The library panics where a pattern of the tokenizer takes too many steps on a text.
        let encoding = if text.len() <= SHORT_BYTES {
            catch_panic(|| call(&self.inner, text))
        } else {
            let (inner, owned) = (Arc::clone(&self.inner), text.to_owned());
            let seconds = SECONDS_MAX + SECONDS_OF_MIB * (text.len() >> 20) as u64;
            let called = within(seconds, move || catch_panic(|| call(&inner, &owned)));
            called.ok_or_else(|| self.failed(&self.growth.too_slow(text.len(), seconds)))?
        };
        encoding.ok_or_else(|| self.failed(&PANICS))?.map_err(|error| self.failed(&error))
    }

    /// The text of tokens, special ones left out.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails, would make too much of the tokens, or takes too long.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        let num_bytes = tokens.iter().filter_map(|&token| self.name_of(token)).map(|name| name.len()).sum();
        self.growth.check_decoded(num_bytes).map_err(|reason| self.failed(&reason))?;
        let call = || {
            if num_bytes <= SHORT_BYTES {
                return Some(catch_panic(|| self.inner.decode(tokens, true)));
            }
            let (inner, owned) = (Arc::clone(&self.inner), tokens.to_owned());
            within(SECONDS_MAX, move || catch_panic(|| inner.decode(&owned, true)))
        };
        let decoded = self.decoding.add(SECONDS_MAX, call);
        let decoded = decoded.ok_or_else(|| self.failed(&Growth::decodes_too_slowly(SECONDS_MAX)))?;
        decoded.ok_or_else(|| self.failed(&PANICS))?.map_err(|error| self.failed(&error))
    }

    /// Whether nothing that follows this token can change the text before it. It can where a token stands for a byte, as `<0xE2>` does: a
    /// decoder makes text of all bytes in a row at once. It goes through tokens that have no text.
    pub(super) fn settles(&self, token: u32) -> bool {
        let special = self.inner.get_added_vocabulary();
        self.name_of(token).is_some_and(|name| !is_byte(&name) && !special.is_special_token(&name))
    }

    fn failed(&self, error: &impl ToString) -> TokenizerError {
        TokenizerError::Text { path: self.path.clone(), reason: error.to_string() }
    }
}

/// Whether it is the name that tokenizers with a fallback to bytes give to a byte.
fn is_byte(name: &str) -> bool {
    let digits = name.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}

fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(Tokenizer::FILE) } else { path.to_owned() }
}

fn metadata(path: &Path) -> Result<fs::Metadata, TokenizerError> {
    let io = |source| TokenizerError::Io { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(io)?;
    match found.is_file() {
        true => Ok(found),
        false => Err(io(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TokenizerError> {
    read_bytes(path, Tokenizer::BYTES_MAX).map_err(|error| match error {
        InputError::TooLarge { num_bytes, max_bytes } => {
            TokenizerError::TooLarge { path: path.to_owned(), num_bytes, max_bytes }
        }
        InputError::Io(source) => TokenizerError::Io { path: path.to_owned(), source },
        error => {
            let source = io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
            TokenizerError::Io { path: path.to_owned(), source }
        }
    })
}

/// Refuses more values than any tokenizer has: a value of two bytes in the file takes over thirty in memory.
fn check_num_values(bytes: &[u8]) -> Result<(), String> {
    /// Published ones have up to two millions: tokens, merges, and their numbers.
    const VALUES_MAX: usize = 6_000_000;
    // Each value but the first of its list comes behind a comma. Those in texts count too.
    let num_values = bytes.iter().filter(|&&byte| byte == b',').count();
    match num_values > VALUES_MAX {
        true => Err(format!(
            "it has about {num_values} values, and at most {VALUES_MAX} are read; use another tokenizer"
        )),
        false => Ok(()),
    }
}

/// Bytes of a tokenizer_config.json at most.
const CONFIG_BYTES_MAX: u64 = 64 << 20;

/// `eos_token` of the tokenizer_config.json beside a tokenizer.json.
fn end_beside(path: &Path) -> Option<String> {
    let bytes = read_bytes(&path.with_file_name("tokenizer_config.json"), CONFIG_BYTES_MAX).ok()?;
    let config: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let token = &config["eos_token"];
    token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned)
}
