//! From what a file of training data holds to tokens and what is learned of them: texts, and JSON with a text, with a prompt and its
//! completion, or with tokens and a mask. `pipezero tokenize` and `data.text` read the same documents by it.

mod fault;
mod fields;
mod forms;
mod maker;

pub use fault::DocumentFault;
pub use fields::Fields;
pub use maker::{Document, DocumentMaker, Part};
