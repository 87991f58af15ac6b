//! Layers with explicit forward and backward passes, their kernels, and the model families.
//!
//! A [`Model`] is a chain of [`Layer`]s. Whoever runs it groups consecutive layers into [`Unit`]s, each with one flat
//! parameter [`Buffer`], and calls forward and backward on them. Nothing here knows of ranks, stages or shards.

pub mod buffer;
pub mod config;
pub mod error;
pub mod gpt2;
pub mod init;
pub mod kernels;
pub mod layer;
pub mod layout;
pub mod mlp;
pub mod model;
pub mod parameter;
pub mod shared;
#[cfg(test)]
mod testing;
pub mod unit;

pub use buffer::Buffer;
pub use config::{Ablation, GptConfig};
pub use error::ModelError;
pub use layer::Layer;
pub use model::Model;
pub use unit::Unit;
