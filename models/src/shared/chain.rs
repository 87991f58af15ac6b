//! A model around blocks of one's own.

use std::sync::Arc;

use super::GptConfig;
use super::ends::{heads, token_embeddings};
use crate::error::{ModelError, require};
use crate::layer::Layer;
use crate::loss::Loss;
use crate::model::{LayerRole, Model, ModelLayer, Tying};

/// Blocks of one's own between a token embedding and a head: [`TokenEmbedding`](super::TokenEmbedding), the blocks, [`Head`](super::Head) with
/// cross-entropy, or with `loss`, which goes with one slice and logits that are kept. Of `config` count the width, the vocabulary, the length of
/// sequences, whether the two ends are tied, and their initial values; each block takes and gives `[B, T, hidden_size]`.
///
/// # Errors
/// [`ModelError::Shape`] where there is no block, or a loss meets slices. Whether blocks fit one behind the other is seen where the model
/// is planned.
pub fn chain(
    config: &GptConfig,
    blocks: Vec<Arc<dyn Layer>>,
    loss: Option<Arc<dyn Loss>>,
) -> Result<Model, ModelError> {
    require(!blocks.is_empty(), "blocks", 0, "a model has at least one")?;
    let num_blocks = blocks.len();
    let mut layers: Vec<ModelLayer> = token_embeddings(config).collect();
    layers.extend(blocks.into_iter().enumerate().map(|(index, layer)| ModelLayer {
        layer,
        role: LayerRole::Block { index },
        tying: Tying::Untied,
    }));
    layers.extend(heads(config, loss)?);
    Ok(Model { layers, vocab_size: config.vocab_size, seq_length: config.seq_length, num_blocks })
}
