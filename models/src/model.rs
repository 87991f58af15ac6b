//! A model: a chain of layers, each with its role, before it is cut into stages and units.

use std::sync::Arc;

use crate::layer::Layer;

/// What a layer is to the partitioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerRole {
    /// Reads tokens; joins the first stage.
    Embedding,
    /// Belongs to transformer block `index`, counted from 0; a block may be several layers.
    Block {
        /// The block.
        index: usize,
    },
    /// Final norm, head and loss; joins the last stage.
    Head,
}

/// Whether a layer's parameters are shared with another layer. A tied layer is always a separate unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tying {
    /// Its parameters are its own.
    Untied,
    /// The embedding's use of the shared weight.
    Embedding,
    /// The head's use of the shared weight; the same parameter names and layout.
    Head,
}

/// One layer of the chain.
#[derive(Clone, Debug)]
pub struct ModelLayer {
    /// The layer.
    pub layer: Arc<dyn Layer>,
    /// What it is to the partitioner.
    pub role: LayerRole,
    /// Whether its parameters are shared.
    pub tying: Tying,
}

impl ModelLayer {
    /// One layer of the chain.
    pub fn new(layer: impl Layer + 'static, role: LayerRole, tying: Tying) -> Self {
        Self { layer: Arc::new(layer), role, tying }
    }
}

/// A chain of layers from tokens to loss.
#[derive(Clone, Debug)]
pub struct Model {
    /// The layers in order.
    pub layers: Vec<ModelLayer>,
    /// V: tokens are below this number.
    pub vocab_size: usize,
    /// The longest sequence, T, that positions are known for.
    pub seq_length: usize,
    /// Transformer blocks.
    pub num_blocks: usize,
}
