//! Models as Hugging Face's transformers keeps them: a folder with a config.json and tensors in safetensors files.
//!
//! ```text
//! config.json --> ModelConfig              every field is honoured, named as unused, or refused by name
//! tensors     --> elements of parameters   read in ranges, so that each rank reads what it holds and no more; others named or refused
//! both        --> Origin                   what a run keeps of the folder, so that an export says what the folder said
//! ```
//!
//! transformers keeps queries, keys and values apart, and gate and up, and GPT-2's linear weights transposed; here they are one
//! parameter each, `[out, in]`. `tensors.rs` says where each element lies, in both directions.

mod config_json;
mod error;
mod export;
mod files;
mod fit;
mod folder;
mod origin;
mod other_tensors;
mod same_model;
mod tensors;
#[cfg(test)]
mod tests;
mod unused;

pub use config_json::{ModelType, PublishedModel, SpecialTokens};
pub use error::{ConfigFault, HuggingFaceError};
pub use export::{About, ExportForm, ExportType};
pub use fit::Fit;
pub use folder::PublishedWeights;
pub use origin::Origin;
pub use unused::{NOT_OF_THE_MODEL, Unused};
