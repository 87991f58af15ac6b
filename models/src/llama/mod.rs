//! Llama (Touvron et al., arXiv:2302.13971) and what is built like it: Llama 2 and 3, Mistral without a sliding window, Qwen2, Qwen3.
//! RMS norms before each branch, rotary positions, SwiGLU, heads of keys that several heads of queries share, biases or none, norms of
//! heads or none, tied or untied head.
//!
//! A transformer block is two layers, [`Attention`] and [`Mlp`], each with its norm and its residual, so that a
//! unit may end there too. Queries, keys and values are one linear map, and so are gate and up.

mod attention;
mod config;
mod mlp;
mod parameters;
mod rope_scaling;
#[cfg(test)]
mod tests;

pub use attention::Attention;
pub use config::{LlamaConfig, LlamaSizes};
pub use mlp::Mlp;
pub use rope_scaling::{RopeScaling, Yarn};

use std::sync::Arc;

use crate::error::ModelError;
use crate::facts::{Activations, Facts};
use crate::loss::Loss;
use crate::model::{LayerRole, Model, ModelLayer, Tying};
use crate::shared::{FinalNorm, heads, token_embeddings};
#[cfg(doc)]
use crate::shared::{Head, TokenEmbedding};

/// What is known of a model of these sizes before it is built.
pub(crate) fn facts(config: &LlamaConfig) -> Facts {
    let gpt = &config.gpt;
    let sizes = [gpt.hidden_size, config.qkv_width(), config.attended_width(), config.ffn_hidden_size];
    let [width, qkv, attended, ffn] = sizes.map(|size| size as u128);
    let biases =
        [(config.add_qkv_bias, qkv), (config.add_proj_bias, width), (config.add_mlp_bias, 2 * ffn + width)];
    let biases: u128 = biases.into_iter().filter(|(is_there, _)| *is_there).map(|(_, len)| len).sum();
    let head_norms = if config.qk_layernorm { 2 * config.kv_channels as u128 } else { 0 };
    // Both norms, queries, keys, values and the projection; gate, up and down.
    let columns = 2 + qkv.saturating_add(attended).saturating_add(3 * ffn);
    let block = width.saturating_mul(columns).saturating_add(biases + head_norms);
    let num_tables = if gpt.tie_embeddings { 1 } else { 2 };
    // Token tables and the final norm.
    let rows = num_tables * gpt.vocab_size as u128 + 1;
    let widest = gpt.vocab_size.max(gpt.hidden_size).max(config.qkv_width());
    Facts {
        family: "llama",
        num_layers: gpt.num_layers,
        seq_length: gpt.seq_length,
        width: Some(gpt.hidden_size),
        num_parameters: block
            .saturating_mul(gpt.num_layers as u128)
            .saturating_add(rows.saturating_mul(width)),
        activations: Activations::PerToken {
            widest: widest.max(config.ffn_hidden_size.saturating_mul(2)),
            // Rounded up generously; the last term is attention between all pairs of tokens, for each head.
            saved_by_block: 12.0 * gpt.hidden_size as f64
                + 3.0 * config.qkv_width() as f64
                + 6.0 * config.ffn_hidden_size as f64
                + gpt.seq_length as f64 * gpt.num_attention_heads as f64,
        },
        has_halves: true,
        attends: true,
        learns: true,
        given_times: None,
    }
}

/// Builds the chain of layers: [`TokenEmbedding`], blocks, [`FinalNorm`], [`Head`]. Embedding and head may be several slices each; where
/// they are tied, the head's weight bears the token table's name.
///
/// # Errors
/// [`ModelError::Shape`] where a value breaks a rule.
pub fn build(config: &LlamaConfig) -> Result<Model, ModelError> {
    build_with(config, None)
}

/// As [`build`], with a loss that the caller brings: no slices, and logits are kept.
///
/// # Errors
/// As [`build`].
pub fn build_with_loss(config: &LlamaConfig, loss: Arc<dyn Loss>) -> Result<Model, ModelError> {
    build_with(config, Some(loss))
}

fn build_with(config: &LlamaConfig, loss: Option<Arc<dyn Loss>>) -> Result<Model, ModelError> {
    config.check(facts(config).num_parameters)?;
    let gpt = &config.gpt;
    let mut layers: Vec<ModelLayer> = token_embeddings(gpt).collect();
    for index in 0..gpt.num_layers {
        let role = LayerRole::Block { index };
        layers.push(ModelLayer::new(Attention::new(config, index), role, Tying::Untied));
        layers.push(ModelLayer::new(Mlp::new(config, index), role, Tying::Untied));
    }
    let norm = FinalNorm::new(config.norm(), gpt.hidden_size);
    layers.push(ModelLayer::new(norm, LayerRole::Head, Tying::Untied));
    layers.extend(heads(gpt, loss)?);
    Ok(Model { layers, vocab_size: gpt.vocab_size, seq_length: gpt.seq_length, num_blocks: gpt.num_layers })
}
