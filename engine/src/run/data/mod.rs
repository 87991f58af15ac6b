//! Text in, micro-batches out: the same samples at every step, whatever the grid.
//!
//! ```text
//! files, folders, globs --read_text--> files --split_text--> training | validation --TextBatches--> micro-batches
//! ```
//!
//! Tokens are bytes, so the vocabulary has 256 entries and there is no tokenizer. The engine asks a [`BatchSource`] for
//! micro-batches; [`TextBatches`] is the one for text, and users may write others.

mod corpus;
mod ngram;
mod sampler;
mod source;
mod split;
mod text;
mod text_batches;
mod token_batch;

pub use corpus::{Corpus, DataError};
pub use ngram::{NgramCrossEntropy, VOCAB_SIZE, ngram_cross_entropy};
pub use sampler::Permutation;
pub use source::{BatchError, BatchSource, NoBatches, Zeros};
pub use split::{BLOCK_BYTES, SplitError, TextSplit, split_text};
pub use text::{TextError, TextFile, find_text, first_words, read_text, text_bytes};
pub use text_batches::{BatchLayout, Start, TextBatches};
pub use token_batch::{BatchFault, TokenBatch};
