//! Tokens on disk, and the tokenizer that makes them: `.bin` and `.idx` as Megatron writes them, `.bin` of nanoGPT and llm.c, and the
//! tokenizer.json of Hugging Face's tokenizers.
//!
//! ```text
//! texts --Tokenizer--> tokens --TokenFileWriter--> PREFIX.bin + PREFIX.idx --TokenFile--> tokens
//! ```
//!
//! Tokens are read where they lie, by position ([`TokenFile::read`]), and are not mapped into memory: a mapped file that becomes shorter
//! while a run reads it kills the process with SIGBUS, which no error can report.

mod bounded_time;
mod catch_panics;
mod character_maps;
pub mod chat;
mod codec;
pub mod documents;
mod error;
mod index;
mod kept_tokens;
mod pieces;
mod raw_file;
mod streamed_text;
#[cfg(test)]
mod tests;
pub use pipezero_files::text;
mod text_stream;
mod token_file;
mod tokenizer;
mod tokenizer_bounds;
mod tokenizer_content;
mod train;
mod writer;

pub use codec::TextCodec;
pub use error::{TokenFault, TokenFileError};
pub use kept_tokens::{KeptTokens, TokenKeeper};
pub use pipezero_config::TokenType;
pub use pipezero_files::made_by::MadeBy;
pub use streamed_text::StreamedText;
pub use text_stream::TextStream;
pub use token_file::{FoundAs, TokenFile};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use train::train_tokenizer;
pub use writer::Written;
pub use writer::{DocumentWriter, write_index};
