//! A small family for tests: token embedding, `gelu(x Wᵀ + b)` per token and block, head. No attention, no norms, no
//! residual, so that a whole grid of runs costs next to nothing, and so that a mistake anywhere in the chain is
//! seen in every gradient before it. It has no place for dropout and refuses it.

mod dense;
#[cfg(test)]
mod tests;

pub use dense::Dense;

use std::sync::Arc;

use crate::config::GptConfig;
use crate::error::ModelError;
use crate::loss::{CrossEntropy, Loss};
use crate::model::{LayerRole, Model, ModelLayer, Tying};
use crate::shared::{Head, TokenEmbedding};

/// Builds the chain of layers: [`TokenEmbedding`], a [`Dense`] per block, [`Head`].
///
/// Attention heads and the ablation of attention do not reach this family.
///
/// # Errors
/// [`ModelError::Shape`] where a value breaks a rule.
pub fn build(config: &GptConfig) -> Result<Model, ModelError> {
    build_with_loss(config, Arc::new(CrossEntropy))
}

/// As [`build`], judged by a loss of one's own.
///
/// # Errors
/// As [`build`].
pub fn build_with_loss(config: &GptConfig, loss: Arc<dyn Loss>) -> Result<Model, ModelError> {
    config.check()?;
    config.check_no_dropout("the mlp family")?;
    let (first, last) = match config.tie_embeddings {
        true => (Tying::Embedding, Tying::Head),
        false => (Tying::Untied, Tying::Untied),
    };
    let mut layers = vec![ModelLayer::new(TokenEmbedding::new(config), LayerRole::Embedding, first)];
    for index in 0..config.num_layers {
        let role = LayerRole::Block { index };
        layers.push(ModelLayer::new(Dense::new(config, index), role, Tying::Untied));
    }
    layers.push(ModelLayer::new(Head::new(config, loss), LayerRole::Head, last));
    Ok(Model {
        layers,
        vocab_size: config.vocab_size,
        seq_length: config.seq_length,
        num_blocks: config.num_layers,
    })
}
