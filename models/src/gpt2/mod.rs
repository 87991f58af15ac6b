//! GPT-2 (Radford et al., 2019, "Language Models are Unsupervised Multitask Learners"): learned positions, norms
//! before each branch, tanh GELU, biases, tied or untied head.
//!
//! A transformer block is two layers, [`Attention`] and [`Mlp`], each with its norm and its residual, so that a
//! unit may end there too. Linear weights are stored `[out, in]`, as PyTorch's `nn.Linear` stores them
//! (the published GPT-2 files hold the transpose).

mod attention;
mod embedding;
mod mlp;
mod position_embedding;
#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use embedding::Embedding;
pub use mlp::Mlp;
pub use position_embedding::PositionEmbedding;

use std::sync::Arc;

use crate::error::{ModelError, require};
use crate::facts::{Activations, Facts};
use crate::kernels::norm::Norm;
use crate::loss::Loss;
use crate::model::{LayerRole, Model, ModelLayer, Tying};
use crate::shared::{FinalNorm, GptConfig, heads, token_embeddings};
#[cfg(doc)]
use crate::shared::{Head, TokenEmbedding};

/// What is known of a model of these sizes before it is built.
pub(crate) fn facts(config: &GptConfig) -> Facts {
    let [width, vocab, length] =
        [config.hidden_size, config.vocab_size, config.seq_length].map(|size| size as u128);
    // Attention 4 C^2 + 4 C, MLP 8 C^2 + 5 C, and a norm of 2 C before each.
    let block = (width * width).saturating_mul(12).saturating_add(13 * width);
    let num_tables = if config.tie_embeddings { 1 } else { 2 };
    // Token tables, positions and the final norm.
    let rows = num_tables * vocab + length + 2;
    Facts {
        family: "gpt2",
        num_layers: config.num_layers,
        seq_length: config.seq_length,
        width: Some(config.hidden_size),
        num_parameters: block
            .saturating_mul(config.num_layers as u128)
            .saturating_add(rows.saturating_mul(width)),
        activations: Activations::PerToken {
            widest: config.vocab_size.max(config.hidden_size.saturating_mul(4)),
            // Rounded up generously; the second term is attention between all pairs of tokens, for each head.
            saved_by_block: 32.0 * config.hidden_size as f64
                + config.seq_length as f64 * config.num_attention_heads as f64,
        },
        has_halves: true,
        attends: true,
        learns: true,
        given_times: None,
    }
}

/// Builds the chain of layers: [`TokenEmbedding`], [`PositionEmbedding`], blocks, [`FinalNorm`], [`Head`]. Embedding and head may
/// be several slices each; where they are tied, the head's weight bears the token table's name; where they are neither, both
/// embeddings are one layer, [`Embedding`].
///
/// # Errors
/// [`ModelError::Shape`] where a value breaks a rule.
pub fn build(config: &GptConfig) -> Result<Model, ModelError> {
    build_with(config, None)
}

/// As [`build`], with a loss that the caller brings: no slices, and logits are kept.
///
/// # Errors
/// As [`build`].
pub fn build_with_loss(config: &GptConfig, loss: Arc<dyn Loss>) -> Result<Model, ModelError> {
    build_with(config, Some(loss))
}

fn build_with(config: &GptConfig, loss: Option<Arc<dyn Loss>>) -> Result<Model, ModelError> {
    config.check(facts(config).num_parameters)?;
    check_heads(config)?;
    let mut layers = Vec::with_capacity(2 * config.num_layers + 4);
    if config.tie_embeddings || config.vocabulary.num_slices > 1 {
        layers.extend(token_embeddings(config));
        layers.push(ModelLayer::new(PositionEmbedding::new(config), LayerRole::Embedding, Tying::Untied));
    } else {
        layers.push(ModelLayer::new(Embedding::new(config), LayerRole::Embedding, Tying::Untied));
    }
    for index in 0..config.num_layers {
        let role = LayerRole::Block { index };
        layers.push(ModelLayer::new(Attention::new(config, index), role, Tying::Untied));
        layers.push(ModelLayer::new(Mlp::new(config, index), role, Tying::Untied));
    }
    layers.push(ModelLayer::new(
        FinalNorm::new(Norm::GPT2, config.hidden_size),
        LayerRole::Head,
        Tying::Untied,
    ));
    layers.extend(heads(config, loss)?);
    Ok(Model {
        layers,
        vocab_size: config.vocab_size,
        seq_length: config.seq_length,
        num_blocks: config.num_layers,
    })
}

/// Checks what attention needs.
fn check_heads(config: &GptConfig) -> Result<(), ModelError> {
    let GptConfig { hidden_size, num_attention_heads: num_heads, .. } = *config;
    let name = "num_attention_heads";
    require(num_heads > 0, name, num_heads, "must be at least 1")?;
    if hidden_size.is_multiple_of(num_heads) {
        return Ok(());
    }
    let repair = nearest_divisor(hidden_size, num_heads);
    require(false, name, num_heads, format!("must divide hidden_size = {hidden_size}; {repair} does"))
}

/// The divisor of `number` nearest to `wanted`, the smaller of two.
fn nearest_divisor(number: usize, wanted: usize) -> usize {
    let distance = |divisor: &usize| divisor.abs_diff(wanted);
    (1..=number).filter(|divisor| number.is_multiple_of(*divisor)).min_by_key(distance).unwrap_or(1)
}
