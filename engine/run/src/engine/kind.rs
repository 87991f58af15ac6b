//! Whether an engine trains, as a type: what an engine for inference cannot do is no method of it.

use std::fmt::Debug;

/// The purpose that an engine was started for.
pub trait EngineKind: of_this_crate::EngineKind + Debug + Send + 'static {}

/// Of an engine that trains.
#[derive(Debug)]
pub struct Training;

/// Of an engine that only evaluates and computes logits.
#[derive(Debug)]
pub struct Inference;

impl EngineKind for Training {}
impl EngineKind for Inference {}

/// No other crate adds a kind.
mod of_this_crate {
    pub trait EngineKind {}

    impl EngineKind for super::Training {}
    impl EngineKind for super::Inference {}
}
