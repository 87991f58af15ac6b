//! From the run file's model section to layers.

use pipezero_models::{Ablation, GptConfig, Model, ModelError, gpt2, mlp, timed};

use crate::config::{self, ModelConfig};

/// Builds the layers of a family.
pub(super) fn build(config: &ModelConfig) -> Result<Model, ModelError> {
    match config {
        ModelConfig::Gpt2(sizes) => gpt2::build(&gpt_config(sizes)),
        ModelConfig::Mlp(sizes) => mlp::build(&gpt_config(sizes)),
        ModelConfig::Timed(timed) => timed::build(&timed_config(timed)),
    }
}

fn timed_config(sizes: &config::TimedConfig) -> timed::TimedConfig {
    timed::TimedConfig {
        num_layers: sizes.num_layers,
        seq_length: sizes.seq_length,
        parameters_per_layer: sizes.parameters_per_layer,
        activation_elements: sizes.activation_elements,
        forward: sizes.forward,
        backward_input: sizes.backward_input,
        backward_weight: sizes.backward_weight,
        recompute: sizes.recompute,
    }
}

/// The run file's sizes as the model families take them, nothing taken out.
pub fn gpt_config(sizes: &config::GptConfig) -> GptConfig {
    GptConfig {
        num_layers: sizes.num_layers,
        hidden_size: sizes.hidden_size,
        num_attention_heads: sizes.num_attention_heads,
        seq_length: sizes.seq_length,
        vocab_size: sizes.vocab_size,
        tie_embeddings: sizes.tie_embeddings,
        init_std: sizes.init_std,
        dropout: sizes.dropout,
        ablation: Ablation::None,
    }
}
