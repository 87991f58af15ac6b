//! Models as Hugging Face's transformers keeps them: a folder with a config.json and tensors in safetensors files.
//!
//! ```text
//! config.json --> ModelConfig              every field is honoured, has no part in training, or is refused by name
//! tensors     --> elements of parameters   read in ranges, so that each rank reads what it holds and no more
//! ```
//!
//! transformers keeps queries, keys and values apart, and gate and up, and GPT-2's linear weights transposed; here they are one
//! parameter each, `[out, in]`. `tensors.rs` says where each element lies, in both directions.

mod config_json;
mod error;
mod export;
mod folder;
mod same_model;
mod tensors;

pub use config_json::{ModelType, PublishedModel, SpecialTokens};
pub use error::{ConfigFault, HuggingFaceError};
pub use folder::PublishedWeights;
