//! Why there are no batches.

use std::path::PathBuf;

use pipezero_tokens::documents::DocumentFault;
use pipezero_tokens::text::TextError;
use pipezero_tokens::{TokenFileError, TokenizerError};

use super::blend::BlendError;
use super::read_error::ReadError;
use super::source::BatchError;
use super::split::SplitError;
use super::token_batch::BatchFault;

/// Why there are no batches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The text cannot be read.
    #[error(transparent)]
    Text(#[from] TextError),
    /// An object of JSON is no document.
    #[error("{}:{line}: {fault}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The line that it begins with, from 1.
        line: u64,
        /// What is wrong, and a repair.
        fault: Box<DocumentFault>,
    },
    /// A file of tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// There is too little text.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// There are too few tokens in files.
    #[error(transparent)]
    SplitTokens(SplitError),
    /// A source is too short.
    #[error("file {number}: {error}")]
    Source {
        /// Which, from 1.
        number: usize,
        /// Why.
        error: SplitError,
    },
    /// What is validated on cannot be used.
    #[error(transparent)]
    Validation(Box<DataError>),
    /// A token that ends documents and that the model does not know.
    #[error(
        "token {token} is not below vocab_size {vocab_size}, so it never comes; write the one that the data has"
    )]
    EndToken {
        /// The token.
        token: u32,
        /// V.
        vocab_size: usize,
    },
    /// Attention is within documents, and nothing says where they end.
    #[error(
        "`{}` has no index, and nothing says where its documents end, which `data.document_attention` needs; name the token that ends them as \
         `data.end_token`",
        path.display()
    )]
    NoDocuments {
        /// The file.
        path: PathBuf,
    },
    /// A file of tokens that another tokenizer made.
    #[error(
        "`{}` was made by the tokenizer `{}`, and `{}` has other contents, by which its tokens mean another text; name the tokenizer that made it, or \
         make the tokens again with `pipezero tokenize`",
        path.display(), made_by.display(), tokenizer.display()
    )]
    OtherTokenizer {
        /// The file.
        path: PathBuf,
        /// The tokenizer that made it.
        made_by: PathBuf,
        /// The run's.
        tokenizer: PathBuf,
    },
    /// Files of tokens and texts are named together.
    #[error("`{}` is a file of tokens, and `{}` is text; name one kind, and the other in a second call", tokens.display(), text.display())]
    Mixed {
        /// The first file of tokens.
        tokens: PathBuf,
        /// The first text.
        text: PathBuf,
    },
    /// A text too long to be tokenized when a run starts.
    #[error(
        "`{}` has {num_bytes} bytes, and of a text with a tokenizer at most {max_bytes} are read when a run starts; make a file of tokens of it \
         with `pipezero tokenize`, and name that as `data.tokens`",
        path.display()
    )]
    LongText {
        /// The file.
        path: PathBuf,
        /// Its length.
        num_bytes: u64,
        /// What is read.
        max_bytes: u64,
    },
    /// Weights that make no blend.
    #[error(transparent)]
    Blend(#[from] BlendError),
    /// Nothing is held out.
    #[error("the run holds out no validation text (`data.validation` is 0); name text to score with --data")]
    NoValidation,
    /// The text has bytes that the model has no tokens for.
    #[error(
        "the text holds the byte {byte}, but the model knows tokens below vocab_size {vocab_size}; text is read as bytes, so \
         use 256, or name a `data.tokenizer`"
    )]
    Vocabulary {
        /// The largest byte of the text.
        byte: u32,
        /// V.
        vocab_size: usize,
    },
    /// The tokenizer has tokens that the model does not know.
    #[error(
        "the tokenizer has tokens up to {largest}, but the model knows tokens below vocab_size {vocab_size}; set `model.vocab_size` to {} or more, \
         or, where `model.from` says it, use that model's own tokenizer",
        largest + 1
    )]
    TokenizerVocabulary {
        /// The largest token.
        largest: usize,
        /// V.
        vocab_size: usize,
    },
    /// The user's source failed.
    #[error("the source failed: {0}")]
    UserSource(BatchError),
    /// The user's source returned a micro-batch that cannot be used.
    #[error(transparent)]
    Batch(BatchFault),
}

impl DataError {
    /// What a source's error is about: of the run's own sources a file, with what is wrong with it.
    pub fn of_source(error: BatchError) -> Self {
        match error.downcast::<ReadError>() {
            Ok(error) => (*error).into(),
            Err(error) => Self::UserSource(error),
        }
    }

    /// The key of the run file that it is about.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Tokens(_) | Self::SplitTokens(_) | Self::Source { .. } => "data.tokens",
            Self::Tokenizer(TokenizerError::UnknownToken { .. }) => "data.end_token",
            Self::Tokenizer(_) | Self::TokenizerVocabulary { .. } | Self::OtherTokenizer { .. } => {
                "data.tokenizer"
            }
            Self::Blend(_) => "data.weights",
            Self::Validation(_) => "data.validation_tokens",
            Self::NoValidation => "data.validation",
            Self::EndToken { .. } => "data.end_token",
            Self::NoDocuments { .. } => "data.document_attention",
            Self::Text(_)
            | Self::Document { .. }
            | Self::Split(_)
            | Self::Mixed { .. }
            | Self::LongText { .. }
            | Self::Vocabulary { .. }
            | Self::UserSource(_)
            | Self::Batch(_) => "data.text",
        }
    }
}

impl From<ReadError> for DataError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::File(error) => Self::Tokens(error),
            ReadError::Text(error) => Self::Text(error),
        }
    }
}
