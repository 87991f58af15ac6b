//! GPT-2 (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners"): learned positions, norms
//! before each branch, tanh GELU, biases, tied or untied head.
//!
//! A transformer block is two layers, [`Attention`] and [`Mlp`], each with its norm and its residual, so that whoever
//! groups layers may cut there too. Linear weights are stored `[out, in]`, as PyTorch's `nn.Linear` stores them
//! (the published GPT-2 files hold the transpose).

mod attention;
mod embedding;
mod final_norm;
mod mlp;
mod position_embedding;
#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use embedding::Embedding;
pub use final_norm::FinalNorm;
pub use mlp::Mlp;
pub use position_embedding::PositionEmbedding;

use std::sync::Arc;

use crate::config::GptConfig;
use crate::error::ModelError;
use crate::loss::{CrossEntropy, Loss};
use crate::model::{LayerRole, Model, ModelLayer, Tying};
use crate::shared::{Head, TokenEmbedding};

/// Builds the chain of layers.
///
/// Untied: [`Embedding`], blocks, [`FinalNorm`], [`Head`]. Tied: [`TokenEmbedding`] and [`PositionEmbedding`] in the
/// first one's place, and the head's weight bears the token table's name.
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
    config.check_heads()?;
    let mut layers = Vec::with_capacity(2 * config.num_layers + 4);
    if config.tie_embeddings {
        layers.push(ModelLayer::new(TokenEmbedding::new(config), LayerRole::Embedding, Tying::Embedding));
        layers.push(ModelLayer::new(PositionEmbedding::new(config), LayerRole::Embedding, Tying::Untied));
    } else {
        layers.push(ModelLayer::new(Embedding::new(config), LayerRole::Embedding, Tying::Untied));
    }
    for index in 0..config.num_layers {
        let role = LayerRole::Block { index };
        layers.push(ModelLayer::new(Attention::new(config, index), role, Tying::Untied));
        layers.push(ModelLayer::new(Mlp::new(config, index), role, Tying::Untied));
    }
    layers.push(ModelLayer::new(FinalNorm::new(config), LayerRole::Head, Tying::Untied));
    let tying = if config.tie_embeddings { Tying::Head } else { Tying::Untied };
    layers.push(ModelLayer::new(Head::new(config, loss), LayerRole::Head, tying));
    Ok(Model {
        layers,
        vocab_size: config.vocab_size,
        seq_length: config.seq_length,
        num_blocks: config.num_layers,
    })
}
