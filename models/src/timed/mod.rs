//! Layers that hold memory and take time without using the CPU, for studies of schedules, transfers and overlap.
//!
//! A timed layer has parameters, activations and saved values of given sizes, and each of its passes returns a given
//! time after it was called; in between it sleeps. So the real engine, with real buffers and real transfers, runs grids
//! far larger than the machine's cores, and what it measures is the program's doing alone. Nothing is computed: the
//! loss is constant, gradients stay as they are, and big buffers are not touched, since that would take CPU time.

mod block;
#[cfg(test)]
mod tests;

pub use block::TimedBlock;

use std::time::Duration;

use crate::error::ModelError;
use crate::model::{LayerRole, Model, ModelLayer, Tying};

/// Tokens are below this number. No layer reads them, so it is that of bytes, as text is read.
const VOCAB_SIZE: usize = 256;

/// The shape of a timed model: equal blocks and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedConfig {
    /// Blocks, one layer each.
    pub num_layers: usize,
    /// T, which decides nothing but how many tokens a step reads and counts.
    pub seq_length: usize,
    /// Parameters of each layer.
    pub parameters_per_layer: usize,
    /// Elements of the activation between two layers for one micro-batch, whatever its shape. A layer saves as many
    /// again beside its input.
    pub activation_elements: usize,
    /// What one layer's forward takes.
    pub forward: Duration,
    /// What one layer's input gradient takes; a full backward takes both halves.
    pub backward_input: Duration,
    /// What one layer's weight gradient takes.
    pub backward_weight: Duration,
    /// What recomputing one layer's saved values takes, where it is the last of its segment; before that it runs its
    /// forward.
    pub recompute: Duration,
}

/// Builds the chain of layers. The first takes tokens, the last returns a loss of one nat per target.
///
/// # Errors
/// [`ModelError::Shape`] where a size is 0.
pub fn build(config: &TimedConfig) -> Result<Model, ModelError> {
    for (name, value) in [
        ("num_layers", config.num_layers),
        ("seq_length", config.seq_length),
        ("parameters_per_layer", config.parameters_per_layer),
        ("activation_elements", config.activation_elements),
    ] {
        if value == 0 {
            let (value, rule) = (format!("{name} = {value}"), "must be at least 1".into());
            return Err(ModelError::Shape { value, rule });
        }
    }
    let layer =
        |index| ModelLayer::new(TimedBlock::new(config, index), LayerRole::Block { index }, Tying::Untied);
    Ok(Model {
        layers: (0..config.num_layers).map(layer).collect(),
        vocab_size: VOCAB_SIZE,
        seq_length: config.seq_length,
        num_blocks: config.num_layers,
    })
}
