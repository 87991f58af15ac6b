//! How many parameters a model has, part by part, from its sizes alone: nothing is built to count them.

use super::RankLayers;
use crate::config::resolved::ModelConfig;

/// Parameters of a model's parts.
pub(super) struct ModelParameters {
    /// Of one transformer block.
    pub(super) block: u128,
    /// Of the larger half of a block.
    pub(super) half: u128,
    /// Of what joins the first stage.
    pub(super) embedding: u128,
    /// Of what joins the last stage.
    pub(super) head: u128,
    /// Of the weight that embedding and head both count, 0 where there is none.
    pub(super) tied: u128,
}

impl ModelParameters {
    pub(super) fn of(model: &ModelConfig) -> Self {
        let sizes = match model {
            ModelConfig::Gpt2(sizes) | ModelConfig::Mlp(sizes) => sizes,
            ModelConfig::Timed(timed) => {
                let block = timed.parameters_per_layer as u128;
                return Self { block, half: block, embedding: 0, head: 0, tied: 0 };
            }
        };
        let hidden = sizes.hidden_size as u128;
        let vocab = sizes.vocab_size as u128 * hidden;
        let tied = if sizes.tie_embeddings { vocab } else { 0 };
        if let ModelConfig::Mlp(_) = model {
            let block = hidden * hidden + hidden;
            return Self { block, half: block, embedding: vocab, head: vocab, tied };
        }
        // Per block: attention 4h^2 + 4h, MLP 8h^2 + 5h, a norm of 2h before each. Positions Th, final norm 2h.
        Self {
            block: 12 * hidden * hidden + 13 * hidden,
            half: 8 * hidden * hidden + 7 * hidden,
            embedding: vocab + sizes.seq_length as u128 * hidden,
            head: vocab + 2 * hidden,
            tied,
        }
    }

    /// Those on one rank; a tied weight is held once where both its uses are.
    pub(super) fn on(&self, rank: &RankLayers) -> u128 {
        let when = |held: bool, parameters: u128| if held { parameters } else { 0 };
        self.block * rank.layers as u128
            + when(rank.has_embedding, self.embedding)
            + when(rank.has_head, self.head)
            - when(rank.has_embedding && rank.has_head, self.tied)
    }
}

/// Parameters of the whole model, a tied weight counted once.
pub(crate) fn num_parameters(model: &ModelConfig) -> u128 {
    let layers = model.num_layers();
    let whole = RankLayers { layers, largest_stage: layers, has_embedding: true, has_head: true };
    ModelParameters::of(model).on(&whole)
}

/// Parameters of a model of any size, rounded: for the test that they can be counted at all.
pub(crate) fn approximate_parameters(model: &ModelConfig) -> f64 {
    let (sizes, per_block) = match model {
        ModelConfig::Gpt2(sizes) => {
            let hidden = sizes.hidden_size as f64;
            (sizes, 12.0 * hidden * hidden + 13.0 * hidden)
        }
        ModelConfig::Mlp(sizes) => {
            let hidden = sizes.hidden_size as f64;
            (sizes, hidden * hidden + hidden)
        }
        ModelConfig::Timed(timed) => return timed.parameters_per_layer as f64 * timed.num_layers as f64,
    };
    per_block * sizes.num_layers as f64
        + sizes.hidden_size as f64 * (2.0 * sizes.vocab_size as f64 + sizes.seq_length as f64 + 2.0)
}
