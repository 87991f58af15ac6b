//! The fields of Llama and of what is built like it.

use pipezero_models::LlamaConfig;
use pipezero_models::shared::{Ablation, GptConfig, VocabularyOptions};

use super::ModelType;
use super::fields::Fields;
use super::rope;
use crate::files::json::Value;
use crate::hugging_face::HuggingFaceError;

pub(super) fn read(fields: &mut Fields<'_>, model_type: ModelType) -> Result<LlamaConfig, HuggingFaceError> {
    let (hidden_size, num_heads) = (fields.needed("hidden_size")?, fields.needed("num_attention_heads")?);
    fields.only("hidden_act", &["silu", "swish"])?;
    fields.only_number("attention_dropout", 0.0)?;
    fields.only_number("pretraining_tp", 1.0)?;
    let longest = fields.needed("max_position_embeddings")?;
    full_attention(fields, model_type, longest)?;
    let (rotary_base, rope_scaling) = rope::read(fields, longest)?;
    // What the type's code takes where the field is missing or null.
    let num_groups = match model_type {
        ModelType::Mistral => 8,
        ModelType::Qwen2 | ModelType::Qwen3 => 32,
        ModelType::Gpt2 | ModelType::Llama => num_heads,
    };
    let head_size = if model_type == ModelType::Qwen3 { 128 } else { hidden_size / num_heads };
    let attention_bias = match model_type {
        ModelType::Llama | ModelType::Qwen3 => fields.flag("attention_bias", false)?,
        ModelType::Gpt2 | ModelType::Mistral | ModelType::Qwen2 => false,
    };
    let gpt = GptConfig {
        num_layers: fields.needed("num_hidden_layers")?,
        hidden_size,
        num_attention_heads: num_heads,
        seq_length: longest,
        vocab_size: fields.needed("vocab_size")?,
        tie_embeddings: fields.flag("tie_word_embeddings", false)?,
        init_std: fields.number("initializer_range")?.unwrap_or(0.02),
        dropout: 0.0,
        ablation: Ablation::None,
        vocabulary: VocabularyOptions::default(),
    };
    Ok(LlamaConfig {
        gpt,
        ffn_hidden_size: fields.needed("intermediate_size")?,
        num_query_groups: fields.size("num_key_value_heads")?.unwrap_or(num_groups),
        kv_channels: fields.size("head_dim")?.unwrap_or(head_size),
        norm_epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6),
        rotary_base,
        rope_scaling,
        add_qkv_bias: attention_bias || model_type == ModelType::Qwen2,
        add_proj_bias: attention_bias,
        add_mlp_bias: model_type == ModelType::Llama && fields.flag("mlp_bias", false)?,
        qk_layernorm: model_type == ModelType::Qwen3,
    })
}

/// Refuses layers in which a token does not see all before it.
fn full_attention(
    fields: &mut Fields<'_>,
    model_type: ModelType,
    longest: usize,
) -> Result<(), HuggingFaceError> {
    let window = fields.take("sliding_window");
    let is_used = match model_type {
        ModelType::Qwen2 | ModelType::Qwen3 => fields.flag("use_sliding_window", false)?,
        _ => true,
    };
    fields.take("max_window_layers");
    let sees_all = |window: &str| window.parse().is_ok_and(|window: usize| window >= longest);
    if let Some(window) = window.filter(|window| is_used && !window.number().is_some_and(sees_all)) {
        let rule = "attention to the last tokens alone is not offered: use a model without it, or null";
        return Err(fields.refuse("sliding_window", window, rule));
    }
    let Some(types) = fields.take("layer_types") else { return Ok(()) };
    let is_full = |value: &Value| matches!(value, Value::String(word) if word == "full_attention");
    match &types.value {
        Value::Array(layers) if layers.iter().all(|layer| is_full(&layer.value)) => Ok(()),
        _ => Err(fields.refuse("layer_types", types, "only layers of \"full_attention\" are offered")),
    }
}
