//! Whether an engine trains, as a type: an engine for inference lacks the methods that need gradients.

use std::fmt::Debug;

/// Whether an engine trains: [`Training`] or [`Inference`].
pub trait EngineKind: of_this_crate::EngineKind + Debug + Send + 'static {}

/// The engine trains.
#[derive(Debug)]
pub struct Training;

/// The engine only evaluates and computes logits.
#[derive(Debug)]
pub struct Inference;

impl EngineKind for Training {}
impl EngineKind for Inference {}

/// Keeps other crates from adding a kind.
mod of_this_crate {
    pub trait EngineKind {}

    impl EngineKind for super::Training {}
    impl EngineKind for super::Inference {}
}
