//! Layers that hold memory and take time without using the CPU, for studies of schedules, transfers and overlap.
//!
//! A timed layer has parameters, activations and saved values of given sizes, and each of its passes returns a given
//! time after it was called; in between it sleeps. So the real engine, with real buffers and real transfers, runs grids
//! far larger than the machine's cores, and what it measures is the program's doing alone. Nothing is computed: the
//! loss is constant, and big buffers are not touched, since that would take CPU time. The exception are the gradients of
//! parameters, which the first backward of a step sets to zero before it sleeps, as every family overwrites them there.

mod block;
#[cfg(test)]
mod tests;

pub use block::TimedBlock;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{ModelError, require};
use crate::facts::{Activations, Facts, PassTimes};
use crate::model::{LayerRole, Model, ModelLayer, Tying};

/// Tokens are below this number. No layer reads them, so it is that of bytes, as text is read.
const VOCAB_SIZE: usize = 256;

/// What timed layers hold and how long they take: equal blocks of one layer each, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimedConfig {
    /// Blocks.
    pub num_layers: usize,
    /// T, which decides nothing but how many tokens a step reads and counts.
    pub seq_length: usize,
    /// Parameters of each layer.
    pub parameters_per_layer: usize,
    /// Elements of the activation between two layers for one micro-batch, whatever its shape. A layer saves as many
    /// again beside its input.
    pub activation_elements: usize,
    /// What each pass over one layer takes.
    #[serde(flatten)]
    pub times: PassTimes,
}

/// The sizes and times that decide how long a layer takes, as costs files have them; `Ns` is how these write a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedSizes<Ns> {
    /// Parameters of a layer.
    pub parameters_per_layer: u64,
    /// Elements of the activation between two layers.
    pub activation_elements: u64,
    /// A layer's forward.
    pub forward_ns: Ns,
    /// A layer's input gradient.
    pub backward_input_ns: Ns,
    /// A layer's weight gradient.
    pub backward_weight_ns: Ns,
    /// A layer's recomputation.
    pub recompute_ns: Ns,
}

impl<Ns: From<Duration>> From<&TimedConfig> for TimedSizes<Ns> {
    fn from(config: &TimedConfig) -> Self {
        Self {
            parameters_per_layer: config.parameters_per_layer as u64,
            activation_elements: config.activation_elements as u64,
            forward_ns: config.times.forward.into(),
            backward_input_ns: config.times.backward_input.into(),
            backward_weight_ns: config.times.backward_weight.into(),
            recompute_ns: config.times.recompute.into(),
        }
    }
}

/// What is known of a model of these sizes before it is built.
pub(crate) fn facts(config: &TimedConfig) -> Facts {
    Facts {
        family: "timed",
        num_layers: config.num_layers,
        seq_length: config.seq_length,
        width: None,
        num_parameters: config.parameters_per_layer as u128 * config.num_layers as u128,
        activations: Activations::Given { elements: config.activation_elements },
        has_halves: false,
        attends: false,
        learns: false,
        given_times: Some(config.times),
    }
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
        require(value > 0, name, value, "must be at least 1")?;
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
