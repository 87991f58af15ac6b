//! Opens the files of a run's data.

use std::fs;
use std::path::{Path, PathBuf};

use pipezero_config::{DataConfig, EndToken};
use pipezero_files::records::{Layout, RecordFault, Records, is_json};
use pipezero_tokens::chat::{ChatTemplate, Date};
use pipezero_tokens::documents::{Document, DocumentFault, DocumentMaker, Fields};
use pipezero_tokens::text::{TextError, find_all};
use pipezero_tokens::{FoundAs, TextCodec, TokenFile, Tokenizer, TokenizerError};

use super::data_error::DataError;
use super::store::Store;

/// What files are opened with.
pub(super) struct Opener<'a> {
    pub(super) config: &'a DataConfig,
    maker: DocumentMaker,
    vocab_size: usize,
    /// How many tokens there may be.
    pub(super) num_kinds: usize,
}

/// Texts that have not been read.
pub(super) struct FoundTexts {
    pub(super) files: Vec<PathBuf>,
    /// Their tokens, where those are their bytes; not known with a tokenizer, or of JSON.
    pub(super) num_tokens: Option<u64>,
    /// Whether the first document of a file is a conversation.
    pub(super) has_conversations: bool,
}

/// What ends a document of JSON whose tokens are bytes: as most files of text end, of which many are read as one.
const BYTES_END: u32 = b'\n' as u32;

impl<'a> Opener<'a> {
    /// Reads the tokenizer, if there is one.
    pub(super) fn new(config: &'a DataConfig, vocab_size: usize) -> Result<Self, DataError> {
        let codec = TextCodec::of(tokenizer_of(config)?);
        let num_kinds = match codec.tokenizer() {
            Some(tokenizer) => tokenizer.vocab_size(),
            None if config.files.tokens.is_empty() => 256,
            None => vocab_size,
        };
        if codec.tokenizer().is_some() && num_kinds > vocab_size {
            return Err(DataError::TokenizerVocabulary { largest: num_kinds - 1, vocab_size });
        }
        let end_token = match codec.tokenizer() {
            Some(_) => end_token_of(config, &codec),
            None => Some(BYTES_END),
        };
        let maker = DocumentMaker::new(codec, end_token, Fields::default(), Some(Date::now()));
        let opener = Self { config, maker, vocab_size, num_kinds };
        match opener.end_token().filter(|&token| token as usize >= vocab_size) {
            Some(token) => Err(DataError::EndToken { token, vocab_size }),
            None => Ok(opener),
        }
    }

    /// The tokenizer's chat template, if it has one.
    pub(super) fn chat_template(&self) -> Option<&ChatTemplate> {
        self.maker.chat_template()
    }

    pub(super) fn tokenizer(&self) -> Option<&Tokenizer> {
        self.maker.tokenizer()
    }

    /// The checksum of what the tokenizer says, if there is one.
    pub(super) fn tokenizer_checksum(&self) -> Option<u64> {
        self.tokenizer().map(Tokenizer::content_checksum)
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

    /// Finds the texts, and does not read them; of JSON the first document is made.
    ///
    /// # Errors
    /// When a text cannot be found, is too long to be tokenized, or all are empty; when the first value of a file of JSON is no document.
    pub(super) fn find_texts(&self) -> Result<FoundTexts, DataError> {
        let files = find_all(&self.config.text)?;
        let (mut total_bytes, mut has_conversations) = (0, false);
        for path in &files {
            let found = fs::metadata(path).map_err(|source| TextError::unreadable(path, source))?;
            self.check_text(path, found.len())?;
            total_bytes += found.len();
            if is_json(path)
                && let (layout, Some((line, record))) = first_record(path)?
            {
                has_conversations |= self.document(path, &layout, line, record)?.is_conversation;
            }
        }
        if total_bytes == 0 {
            return Err(TextError::Empty { num_files: files.len() }.into());
        }
        let is_counted = self.tokenizer().is_none() && !files.iter().any(|path| is_json(path));
        Ok(FoundTexts { files, num_tokens: is_counted.then_some(total_bytes), has_conversations })
    }

    /// Refuses a text that is too long to be turned into tokens.
    pub(super) fn check_text(&self, path: &Path, num_bytes: u64) -> Result<(), DataError> {
        let max_bytes = Tokenizer::TEXT_BYTES_MAX as u64;
        if self.tokenizer().is_some() && num_bytes > max_bytes {
            return Err(DataError::LongText { path: path.to_owned(), num_bytes, max_bytes });
        }
        Ok(())
    }

    /// The document of a record of a file.
    pub(super) fn document(
        &self,
        path: &Path,
        layout: &Layout,
        line: u64,
        record: Result<String, RecordFault>,
    ) -> Result<Document, DataError> {
        let made = record.map_err(DocumentFault::from).and_then(|text| self.maker.document(layout, &text));
        made.map_err(|fault| match fault {
            DocumentFault::Tokenizer(error) => DataError::Tokenizer(error),
            fault => DataError::Document { path: path.to_owned(), line, fault: Box::new(fault) },
        })
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
        if let (Some(tokenizer), Some(made)) = (self.tokenizer(), file.made_by())
            && made.is_another_than(tokenizer.content_checksum())
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
        end_token_of(self.config, self.maker.codec())
    }
}

fn end_token_of(config: &DataConfig, codec: &TextCodec) -> Option<u32> {
    match config.files.end_token {
        Some(EndToken::Number(number)) => Some(number),
        Some(EndToken::Name(_)) | None => codec.end_token(),
    }
}

/// The form of a file of JSON, and its first record with its line.
type FirstRecord = (Layout, Option<(u64, Result<String, RecordFault>)>);

fn first_record(path: &Path) -> Result<FirstRecord, TextError> {
    let mut records = Records::open(path).map_err(|source| TextError::unreadable(path, source))?;
    Ok((records.layout().clone(), records.next()))
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
