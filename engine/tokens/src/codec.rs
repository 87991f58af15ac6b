//! How a run's text becomes tokens, and tokens text.

use super::tokenizer::{Tokenizer, TokenizerError};

/// Bytes, or a tokenizer.
#[derive(Debug)]
pub enum TextCodec {
    /// Tokens are the bytes of the text.
    Bytes,
    /// Tokens are those of a tokenizer.
    Tokenizer(Box<Tokenizer>),
}

impl TextCodec {
    /// Of a run's tokenizer, if it has one.
    pub fn of(tokenizer: Option<Tokenizer>) -> Self {
        tokenizer.map_or(Self::Bytes, |tokenizer| Self::Tokenizer(Box::new(tokenizer)))
    }

    /// The run's tokenizer, if it has one.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        match self {
            Self::Bytes => None,
            Self::Tokenizer(tokenizer) => Some(tokenizer),
        }
    }

    /// One more than the largest token.
    pub fn vocab_size(&self) -> usize {
        self.tokenizer().map_or(256, Tokenizer::vocab_size)
    }

    /// The tokens of a whole text.
    ///
    /// # Errors
    /// When the tokenizer fails at the text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.tokenizer().map_or_else(|| Ok(bytes_of(text)), |tokenizer| tokenizer.encode(text))
    }

    /// The tokens of a text that goes on from another one.
    ///
    /// # Errors
    /// When the tokenizer fails at the text.
    pub fn encode_rest(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.tokenizer().map_or_else(|| Ok(bytes_of(text)), |tokenizer| tokenizer.encode_rest(text))
    }

    /// The tokens of a text that is to be continued: without what would end it.
    ///
    /// # Errors
    /// When the tokenizer fails at the text.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.tokenizer().map_or_else(|| Ok(bytes_of(text)), |tokenizer| tokenizer.encode_beginning(text))
    }

    /// The text of tokens; what is no UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// When the tokenizer's decoder fails.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        match self {
            // A token that is no byte is of a vocabulary that text does not use.
            Self::Bytes => {
                let bytes: Vec<u8> = tokens.iter().filter_map(|&token| u8::try_from(token).ok()).collect();
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Self::Tokenizer(tokenizer) => tokenizer.decode(tokens),
        }
    }

    /// The token that ends a text, if there is one.
    pub fn end_token(&self) -> Option<u32> {
        match self {
            Self::Bytes => None,
            Self::Tokenizer(tokenizer) => tokenizer.end_token(),
        }
    }
}

fn bytes_of(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}
