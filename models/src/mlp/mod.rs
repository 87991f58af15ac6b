//! A small family for tests: token embedding, `gelu(x Wᵀ + b)` per token and block, head. No attention, no norms, no
//! residual, so that a whole grid of runs costs next to nothing, and so that a mistake anywhere in the chain is
//! seen in every gradient before it. It has no place for dropout and refuses it.

mod dense;
#[cfg(test)]
mod tests;

pub use dense::Dense;

use std::sync::Arc;

use crate::error::{ModelError, require};
use crate::facts::{Activations, Facts};
use crate::layer::Layer;
use crate::loss::Loss;
use crate::model::Model;
use crate::shared::{GptConfig, chain};
#[cfg(doc)]
use crate::shared::{Head, TokenEmbedding};

/// What is known of a model of these sizes before it is built.
pub(crate) fn facts(config: &GptConfig) -> Facts {
    let [width, vocab] = [config.hidden_size, config.vocab_size].map(|size| size as u128);
    let block = width * (width + 1);
    let num_tables = if config.tie_embeddings { 1 } else { 2 };
    Facts {
        family: "mlp",
        num_layers: config.num_layers,
        seq_length: config.seq_length,
        width: Some(config.hidden_size),
        num_parameters: block
            .saturating_mul(config.num_layers as u128)
            .saturating_add((num_tables * vocab).saturating_mul(width)),
        activations: Activations::PerToken {
            widest: config.vocab_size.max(config.hidden_size.saturating_mul(4)),
            saved_by_block: 32.0 * config.hidden_size as f64,
        },
        has_halves: false,
        attends: false,
        learns: true,
        given_times: None,
    }
}

/// Builds the chain of layers: [`TokenEmbedding`], a [`Dense`] per block, [`Head`]. Embedding and head may be several slices each.
///
/// Attention heads and the ablation of attention do not reach this family.
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
    let rule = "the mlp family has no dropout; use 0, or the gpt2 family";
    require(config.dropout == 0.0, "dropout", config.dropout, rule)?;
    let block = |index| Arc::new(Dense::new(config, index)) as Arc<dyn Layer>;
    chain(config, (0..config.num_layers).map(block).collect(), loss)
}
