//! A front: modules that turn inputs of their own, such as images or sounds, into rows that are added to token embeddings.
//!
//! How many such inputs a micro-batch has, how long each is and which modules they are for may differ from micro-batch to micro-batch and from
//! data rank to data rank. What ranks send each other does not: a module without an input has a gradient of zero, as every parameter has that
//! nothing uses, and the buffers are those of the largest inputs.

mod inputs;
mod layer;
mod module;
#[cfg(test)]
mod tests;

pub use inputs::{FrontInputs, FrontLimits, FrontSpec, InputShape, NO_ROW};
pub use layer::Front;
pub use module::FrontModule;
