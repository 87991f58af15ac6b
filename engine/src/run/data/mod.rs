//! Text in, micro-batches out: the same samples at every step, whatever the grid.
//!
//! ```text
//! files, folders, globs --read_text--> files --split_text--> training | validation --TextBatches--> micro-batches
//! ```
//!
//! Tokens are bytes, so the vocabulary has 256 entries and no tokenizer can go missing. A [`BatchSource`] is what the
//! engine asks for micro-batches; [`TextBatches`] is the one for text, users bring their own.

mod batch;
mod corpus;
mod ngram;
mod sampler;
mod split;
mod text;

pub use batch::{BatchError, BatchFault, BatchLayout, BatchSource, TextBatches, TokenBatch, Zeros};
pub use corpus::{Corpus, DataError, NoBatches};
pub use ngram::{NgramCrossEntropy, VOCAB_SIZE, ngram_cross_entropy};
pub use sampler::Permutation;
pub use split::{BLOCK_BYTES, Side, SplitError, TextSplit, split_text};
pub use text::{TextError, TextFile, find_text, read_text};
