//! Text or tokens in, micro-batches out: the same samples at every step, whatever the grid.
//!
//! ```text
//! text --read_text--> stores \
//!                             --split--> training | validation: streams --TokenBatches--> micro-batches
//! files of tokens --> stores /
//! ```
//!
//! Without a tokenizer the tokens of a text are its bytes, so the vocabulary has 256 entries. With one, the tokens of texts are written to a file
//! without a name as they are made. Texts and tokens stay on disk: a micro-batch reads what it needs. The engine asks a [`BatchSource`] for micro-batches; [`TokenBatches`] is the one for a run's data, and
//! users may write others.

mod batches;
mod blend;
mod corpus;
mod data_error;
mod documents;
mod encoder_batch;
mod every_sequence;
mod extent;
mod inspect;
mod ngram;
mod opener;
mod read_error;
mod sampler;
mod source;
mod split;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod text_needs;
mod texts;
mod token_batch;
mod window;

pub use batches::{BatchLayout, Start, TokenBatches};
pub use blend::{BlendError, CYCLE};
pub use corpus::Corpus;
pub use data_error::DataError;
pub use encoder_batch::{EncoderBatch, EncoderFault, EncoderInput};
pub use every_sequence::EverySequence;
pub use inspect::{Inspected, inspect};
pub use ngram::NgramCrossEntropy;
pub use opener::tokenizer_of;
pub use pipezero_tokens::text::{TextError, TextFile, find_text, first_words, read_text, text_bytes};
pub use sampler::Permutation;
pub use source::{BatchError, BatchSource, NoBatches, Zeros};
pub use split::{BLOCK_TOKENS, SplitError};
pub use text_needs::{TextNeeds, text_needs};
pub use token_batch::{BatchFault, TokenBatch};
