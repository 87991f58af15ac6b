//! An input encoder: modules that turn inputs besides the tokens, such as images or sounds, into rows that are added to token embeddings.
//!
//! The number of these inputs, their lengths and their modules may differ from micro-batch to micro-batch and from data rank to data rank.
//! What ranks send each other does not differ: a module without an input has a gradient of zero, like every parameter that nothing uses,
//! and buffers are as large as the largest inputs need.

mod inputs;
mod layer;
mod module;
#[cfg(test)]
mod tests;

pub use inputs::{EncoderInputs, EncoderLimits, EncoderSpec, InputShape, NO_ROW};
pub use layer::InputEncoder;
pub use module::EncoderModule;
