//! Turns texts into a file of tokens, on all cores, in bounded memory, and resumable.
//!
//! ```text
//! files --Reader--> batches of documents --workers--> tokens, in the order of the batches --DocumentWriter--> PREFIX.bin
//!                                                                             when all is written: PREFIX.idx
//! ```
//!
//! What is written depends on the inputs and the tokenizer alone: not on the number of workers, on where batches are cut, or on whether the
//! work was interrupted.

mod error;
mod job;
mod options;
mod outputs;
mod reader;
mod state;
#[cfg(test)]
mod tests;
mod workers;

pub use error::TokenizeError;
pub use job::{Finished, Job, Watch};
pub use options::{End, Form, Options, Start};
pub use pipezero_tokens::documents::{DocumentFault, Fields};
