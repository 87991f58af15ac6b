//! Makes a tokenizer.json from texts.

use std::path::Path;

use pipezero_files::partial::{Existing, PartialFile};
use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, DecoderWrapper, PostProcessorWrapper, PreTokenizerWrapper, TokenizerImpl};

use super::tokenizer::{END_TOKENS, TokenizerError};

type Parts = TokenizerImpl<BPE, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Trains a byte-level BPE as GPT-2's on texts, and writes it as a tokenizer.json: all 256 bytes, the pairs that are merged most often, and
/// `<|endoftext|>`, which ends a document. Of short texts it has fewer than `vocab_size` tokens. The same texts give the same file.
///
/// # Errors
/// When the file cannot be written.
pub fn train_tokenizer<T: AsRef<str> + Send>(
    texts: impl Iterator<Item = T> + Send,
    vocab_size: usize,
    path: &Path,
) -> Result<(), TokenizerError> {
    let failed =
        |error: &dyn ToString| TokenizerError::Format { path: path.to_owned(), reason: error.to_string() };
    let mut tokenizer: Parts = TokenizerImpl::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    let mut trainer = BpeTrainerBuilder::new()
        .show_progress(false)
        .vocab_size(vocab_size)
        .special_tokens(vec![AddedToken::from(END_TOKENS[0], true)])
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    tokenizer.train(&mut trainer, texts).map_err(|error| failed(&error))?;
    let text = tokenizer.to_string(true).map_err(|error| failed(&error))?;
    PartialFile::create(path, Existing::Replaced)
        .and_then(|file| file.finish_with(text))
        .map_err(|source| TokenizerError::Io { path: path.to_owned(), source })
}
