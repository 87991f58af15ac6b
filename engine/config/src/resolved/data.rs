//! Where tokens come from.

use std::path::PathBuf;

use serde::Serialize;

use crate::TokenType;

/// The data and its split. A model that reads none has the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DataConfig {
    /// Files, folders and globs of text, made absolute against the run file's folder. Empty where tokens are read from files.
    pub text: Vec<PathBuf>,
    /// Tokens in files.
    #[serde(flatten)]
    pub files: TokenFilesConfig,
    /// What makes tokens of text; `None` = they are its bytes.
    pub tokenizer: Option<PathBuf>,
    /// Share of the data that is kept for validation.
    pub validation: f64,
    /// Whether a token sees the earlier tokens of its own document alone, and positions are counted from there.
    pub document_attention: bool,
    /// Lengths of which each micro-batch in training has one; none where all have that of the model's sequences.
    pub seq_lengths: Vec<usize>,
    /// Whether processes compare every byte of large files.
    pub verify: bool,
}

impl DataConfig {
    /// Whether it says which text its tokens are: they are bytes, or those of a tokenizer.
    pub fn knows_text(&self) -> bool {
        self.files.tokens.is_empty() || self.tokenizer.is_some()
    }
}

/// Tokens in files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenFilesConfig {
    /// Files, or prefixes of a `.bin` and a `.idx`.
    pub tokens: Vec<PathBuf>,
    /// A positive weight for each of them, or none.
    pub weights: Vec<f64>,
    /// Files that are validated on.
    pub validation_tokens: Vec<PathBuf>,
    /// How a file that does not say so stores its tokens.
    pub token_type: TokenType,
    /// What ends a document; `None` = what the tokenizer says.
    pub end_token: Option<EndToken>,
}

/// The token that ends a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum EndToken {
    /// Its name in the tokenizer.
    Name(String),
    /// Its number.
    Number(u32),
}

impl Default for TokenFilesConfig {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            weights: Vec::new(),
            validation_tokens: Vec::new(),
            token_type: TokenType::U16,
            end_token: None,
        }
    }
}
