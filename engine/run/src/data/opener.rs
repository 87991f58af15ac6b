//! Opens the files of a run's data.

use std::fs;
use std::path::{Path, PathBuf};

use pipezero_config::{DataConfig, EndToken};
use pipezero_tokens::text::{TextError, find_all};
use pipezero_tokens::{FoundAs, StreamedText, TokenFile, TokenKeeper, Tokenizer, TokenizerError};
use rayon::prelude::*;

use super::data_error::DataError;
use super::store::Store;

/// Bytes of texts that are turned into tokens at once, unless a single text has more. A tokenizer takes up to 230 bytes for each of them.
pub(super) const AT_ONCE_BYTES: u64 = 1 << 20;

/// What files are opened with.
pub(super) struct Opener<'a> {
    config: &'a DataConfig,
    tokenizer: Option<Tokenizer>,
    vocab_size: usize,
    /// How many tokens there may be.
    pub(super) num_kinds: usize,
}

/// Texts that have not been read.
pub(super) struct FoundTexts {
    pub(super) files: Vec<PathBuf>,
    /// Their tokens, where those are their bytes; not known with a tokenizer.
    pub(super) num_tokens: Option<u64>,
}

impl<'a> Opener<'a> {
    /// Reads the tokenizer, if there is one.
    pub(super) fn new(config: &'a DataConfig, vocab_size: usize) -> Result<Self, DataError> {
        let tokenizer = tokenizer_of(config)?;
        let num_kinds = match &tokenizer {
            Some(tokenizer) => tokenizer.vocab_size(),
            None if config.files.tokens.is_empty() => 256,
            None => vocab_size,
        };
        if tokenizer.is_some() && num_kinds > vocab_size {
            return Err(DataError::TokenizerVocabulary { largest: num_kinds - 1, vocab_size });
        }
        let opener = Self { config, tokenizer, vocab_size, num_kinds };
        match opener.end_token().filter(|&token| token as usize >= vocab_size) {
            Some(token) => Err(DataError::EndToken { token, vocab_size }),
            None => Ok(opener),
        }
    }

    /// The checksum of what the tokenizer says, if there is one.
    pub(super) fn tokenizer_checksum(&self) -> Option<u64> {
        self.tokenizer.as_ref().map(Tokenizer::content_checksum)
    }

    /// What is trained on, and what a share of is held out.
    pub(super) fn main(&self) -> Result<Vec<Store>, DataError> {
        let tokens = &self.config.files.tokens;
        if tokens.is_empty() { self.texts() } else { self.token_files(tokens, self.config.validation > 0.0) }
    }

    /// Files that are validated on.
    pub(super) fn validation(&self) -> Result<Vec<Store>, DataError> {
        self.token_files(&self.config.files.validation_tokens, false)
    }

    /// Finds the texts, and does not read them.
    ///
    /// # Errors
    /// When a text cannot be found, is too long to be tokenized, or all are empty.
    pub(super) fn find_texts(&self) -> Result<FoundTexts, DataError> {
        let files = find_all(&self.config.text)?;
        let mut total_bytes = 0;
        for path in &files {
            let found = fs::metadata(path).map_err(|source| TextError::unreadable(path, source))?;
            self.check_text(path, found.len())?;
            total_bytes += found.len();
        }
        if total_bytes == 0 {
            return Err(TextError::Empty { num_files: files.len() }.into());
        }
        Ok(FoundTexts { files, num_tokens: self.tokenizer.is_none().then_some(total_bytes) })
    }

    fn check_text(&self, path: &Path, num_bytes: u64) -> Result<(), DataError> {
        let max_bytes = Tokenizer::TEXT_BYTES_MAX as u64;
        if self.tokenizer.is_some() && num_bytes > max_bytes {
            return Err(DataError::LongText { path: path.to_owned(), num_bytes, max_bytes });
        }
        Ok(())
    }

    fn texts(&self) -> Result<Vec<Store>, DataError> {
        let files = find_all(&self.config.text)?;
        let num_files = files.len();
        let is_held = |number: usize| self.tokenizer.is_none() && number < StreamedText::HELD_MAX;
        let opened = files.iter().enumerate().map(|(number, path)| StreamedText::open(path, is_held(number)));
        let texts = opened.collect::<Result<Vec<_>, _>>()?;
        if texts.iter().all(|text| text.num_bytes() == 0) {
            return Err(TextError::Empty { num_files }.into());
        }
        match &self.tokenizer {
            Some(tokenizer) => self.tokens_of(&texts, tokenizer),
            None => Ok(texts.into_iter().map(Store::Text).collect()),
        }
    }

    /// The tokens of texts, in their order. Some texts are turned into tokens at once, on all cores: as many as [`AT_ONCE_BYTES`] allow.
    fn tokens_of(&self, texts: &[StreamedText], tokenizer: &Tokenizer) -> Result<Vec<Store>, DataError> {
        let mut keeper = TokenKeeper::new()?;
        let mut rest = texts;
        while !rest.is_empty() {
            let (group, others) = rest.split_at(num_at_once(rest.iter().map(StreamedText::num_bytes)));
            rest = others;
            let tokens = group.par_iter().map(|text| {
                self.check_text(text.path(), text.num_bytes())?;
                let mut tokens = tokenizer.encode(&text.whole()?)?;
                let end_token = self.end_token();
                tokens.extend(end_token.filter(|end| !tokens.is_empty() && tokens.last() != Some(end)));
                Ok(tokens)
            });
            for tokens in tokens.collect::<Result<Vec<_>, DataError>>()? {
                keeper.add(&tokens)?;
            }
        }
        Ok(keeper.finish()?.into_iter().map(Store::Tokens).collect())
    }

    /// Files without an index are cut between documents where a share of them is held out, or attention ends with a document.
    fn token_files(&self, paths: &[PathBuf], is_split: bool) -> Result<Vec<Store>, DataError> {
        let needs_documents = is_split || self.config.document_attention;
        let opened = paths.iter().map(|path| {
            let mut file = self.token_file(path)?;
            let end_token =
                self.end_token().filter(|_| needs_documents && file.found_as() != FoundAs::Indexed);
            if let Some(end_token) = end_token {
                file.find_documents(end_token, self.vocab_size)?;
            }
            Ok(Store::File(file))
        });
        opened.collect()
    }

    /// A file of tokens, its documents as its index says.
    ///
    /// # Errors
    /// When it is damaged, when another tokenizer than the run's made it, or its documents need to be known and nothing says where they end.
    pub(super) fn token_file(&self, path: &Path) -> Result<TokenFile, DataError> {
        let file = TokenFile::open(path, self.config.files.token_type)?;
        if let (Some(tokenizer), Some(made)) = (&self.tokenizer, file.made_by())
            && made.is_another_than(tokenizer)
        {
            return Err(DataError::OtherTokenizer {
                path: file.path().to_owned(),
                made_by: made.tokenizer,
                tokenizer: tokenizer.path().to_owned(),
            });
        }
        let is_known = file.found_as() == FoundAs::Indexed || self.end_token().is_some();
        if self.config.document_attention && !is_known {
            return Err(DataError::NoDocuments { path: path.to_owned() });
        }
        Ok(file)
    }

    fn end_token(&self) -> Option<u32> {
        match self.config.files.end_token {
            Some(EndToken::Number(number)) => Some(number),
            Some(EndToken::Name(_)) | None => self.tokenizer.as_ref().and_then(Tokenizer::end_token),
        }
    }
}

/// How many of the first texts of these lengths are turned into tokens at once: at least one.
fn num_at_once(lengths: impl Iterator<Item = u64>) -> usize {
    let sums = lengths.scan(0, |sum: &mut u64, length| {
        *sum += length;
        Some(*sum)
    });
    sums.take_while(|&sum| sum <= AT_ONCE_BYTES).count().max(1)
}

/// The tokenizer of a run; `None` where it names none.
///
/// # Errors
/// When it cannot be used.
pub fn tokenizer_of(config: &DataConfig) -> Result<Option<Tokenizer>, TokenizerError> {
    let Some(path) = &config.tokenizer else { return Ok(None) };
    let loaded = match &config.files.end_token {
        Some(EndToken::Name(name)) => Tokenizer::load(path, Some(name))?,
        Some(EndToken::Number(number)) => Tokenizer::load(path, None)?.ending_with(*number),
        None => Tokenizer::load(path, None)?,
    };
    Ok(Some(loaded))
}
