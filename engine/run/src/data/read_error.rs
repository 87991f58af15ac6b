//! Why tokens cannot be read while a run goes on.

use pipezero_tokens::TokenFileError;
use pipezero_tokens::text::TextError;

/// Why tokens cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// A file of tokens.
    #[error(transparent)]
    File(#[from] TokenFileError),
    /// A text.
    #[error(transparent)]
    Text(#[from] TextError),
}
