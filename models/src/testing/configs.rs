//! Small models; tests change what they are about.

use crate::llama::{LlamaConfig, RopeScaling};
use crate::shared::{Ablation, GptConfig, VocabularyOptions};

/// An untied GPT.
pub(crate) fn config() -> GptConfig {
    GptConfig {
        num_layers: 2,
        hidden_size: 24,
        num_attention_heads: 3,
        seq_length: 13,
        vocab_size: 37,
        tie_embeddings: false,
        init_std: 0.02,
        dropout: 0.0,
        ablation: Ablation::None,
        vocabulary: VocabularyOptions::default(),
    }
}

/// A Llama with one head of keys and everything that a model may have.
pub(crate) fn llama_config() -> LlamaConfig {
    LlamaConfig {
        gpt: config(),
        ffn_hidden_size: 20,
        num_query_groups: 1,
        kv_channels: 10,
        norm_epsilon: 1e-5,
        rotary_base: 100.0,
        rope_scaling: RopeScaling::Default,
        add_qkv_bias: true,
        add_proj_bias: true,
        add_mlp_bias: true,
        qk_layernorm: true,
    }
}
