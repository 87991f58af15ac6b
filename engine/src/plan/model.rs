//! From the run file's model section to layers.

use pipezero_models::{Ablation, Model, ModelError, gpt2, mlp};

use crate::config::{GptConfig, ModelConfig};

/// What a study changes about a model beside the run file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelOptions {
    /// What is taken out of the model, to see what it is worth.
    pub ablation: Ablation,
}

/// Builds the layers; also returns T, the tokens of a sequence.
pub(super) fn build(config: &ModelConfig, options: ModelOptions) -> Result<(Model, usize), ModelError> {
    let sizes = |gpt: &GptConfig| pipezero_models::GptConfig {
        num_layers: gpt.num_layers,
        hidden_size: gpt.hidden_size,
        num_attention_heads: gpt.num_attention_heads,
        seq_length: gpt.seq_length,
        vocab_size: gpt.vocab_size,
        tie_embeddings: gpt.tie_embeddings,
        init_std: gpt.init_std,
        ablation: options.ablation,
    };
    match config {
        ModelConfig::Gpt2(gpt) => Ok((gpt2::build(&sizes(gpt))?, gpt.seq_length)),
        ModelConfig::Mlp(gpt) => Ok((mlp::build(&sizes(gpt))?, gpt.seq_length)),
    }
}
