//! What a family says of a model before any layer of it is built: all of it follows from the sizes.

use std::time::Duration;

use serde::Serialize;

/// What is known of a model of a family's sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// The family, as run files name it.
    pub family: &'static str,
    /// L: transformer blocks, or what stands in for them.
    pub num_layers: usize,
    /// T: tokens of a sequence.
    pub seq_length: usize,
    /// C: width of the residual stream; `None` in a family without one.
    pub width: Option<usize>,
    /// Parameters, a tied weight counted once; `u128::MAX` where they are more.
    pub num_parameters: u128,
    /// How large activations are.
    pub activations: Activations,
    /// Whether a block is two layers, attention and MLP, so that a unit may be half a block.
    pub has_halves: bool,
    /// Whether its layers attend to other tokens, so that it matters where documents begin.
    pub attends: bool,
    /// Whether training changes the parameters, so that text is read, and the model can be evaluated and asked for text.
    pub learns: bool,
    /// What each pass over a layer takes, in a family whose layers sleep instead of computing.
    pub given_times: Option<PassTimes>,
}

/// How many elements activations have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activations {
    /// So many for each token of a micro-batch.
    PerToken {
        /// The widest activation.
        widest: usize,
        /// A bound for what one block saves, its input included.
        saved_by_block: f64,
    },
    /// Given for a micro-batch of any shape; a layer saves its input and as many again.
    Given {
        /// Elements between two layers.
        elements: usize,
    },
}

impl Activations {
    /// A bound for what one block saves of a micro-batch of `num_sequences` of `seq_length` tokens.
    pub fn saved_by_block(self, num_sequences: usize, seq_length: usize) -> f64 {
        match self {
            Self::PerToken { saved_by_block, .. } => {
                num_sequences as f64 * seq_length as f64 * saved_by_block
            }
            Self::Given { elements } => 2.0 * elements as f64,
        }
    }

    /// Elements of the widest activation for each token; given activations do not grow with tokens and count as one.
    pub fn widest_per_token(self) -> usize {
        match self {
            Self::PerToken { widest, .. } => widest,
            Self::Given { .. } => 1,
        }
    }
}

/// What each pass over a layer takes for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PassTimes {
    /// The forward.
    pub forward: Duration,
    /// The input gradient; a full backward takes both halves.
    pub backward_input: Duration,
    /// The weight gradient.
    pub backward_weight: Duration,
    /// Recomputing saved values, by the last layer of a segment; the layers before it run their forward.
    pub recompute: Duration,
}
