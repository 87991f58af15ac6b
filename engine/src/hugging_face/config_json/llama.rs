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
    // What the type's code takes where a field is missing; null is as many heads of keys, and the width divided by the heads.
    let num_groups = match model_type {
        ModelType::Mistral if !fields.has("num_key_value_heads") => 8,
        ModelType::Qwen2 | ModelType::Qwen3 if !fields.has("num_key_value_heads") => 32,
        _ => num_heads,
    };
    let is_of_128 = model_type == ModelType::Qwen3 && !fields.has("head_dim");
    let head_size = if is_of_128 { 128 } else { hidden_size / num_heads };
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
        num_query_groups: query_groups(fields, num_heads, num_groups)?,
        kv_channels: head_dim(fields, head_size)?,
        norm_epsilon: fields.number("rms_norm_eps")?.unwrap_or(1e-6),
        rotary_base,
        rope_scaling,
        add_qkv_bias: attention_bias || model_type == ModelType::Qwen2,
        add_proj_bias: attention_bias,
        add_mlp_bias: model_type == ModelType::Llama && fields.flag("mlp_bias", false)?,
        qk_layernorm: model_type == ModelType::Qwen3,
    })
}

fn query_groups(
    fields: &mut Fields<'_>,
    num_heads: usize,
    default: usize,
) -> Result<usize, HuggingFaceError> {
    let name = "num_key_value_heads";
    let groups = fields.size(name)?.unwrap_or(default);
    match fields.take(name) {
        Some(node) if !num_heads.is_multiple_of(groups) => {
            let rule = format!("it must divide `num_attention_heads`, which is {num_heads}");
            Err(fields.refuse(name, node, &rule))
        }
        _ => Ok(groups),
    }
}

fn head_dim(fields: &mut Fields<'_>, default: usize) -> Result<usize, HuggingFaceError> {
    let size = fields.size("head_dim")?.unwrap_or(default);
    match fields.take("head_dim") {
        Some(node) if !size.is_multiple_of(2) => {
            Err(fields.refuse("head_dim", node, "it must be even: rotary embeddings turn pairs of elements"))
        }
        _ => Ok(size),
    }
}

/// Tokens that the code of some types sees where config.json does not say how many.
const DEFAULT_WINDOW: usize = 4096;

/// Refuses layers in which a token does not see all before it.
fn full_attention(
    fields: &mut Fields<'_>,
    model_type: ModelType,
    longest: usize,
) -> Result<(), HuggingFaceError> {
    let (has_window, window) = (fields.has("sliding_window"), fields.take("sliding_window"));
    let is_used = match model_type {
        ModelType::Qwen2 | ModelType::Qwen3 => fields.flag("use_sliding_window", false)?,
        _ => true,
    };
    if model_type == ModelType::Qwen2 {
        fields.only_flag("use_mrope", false)?;
    }
    if is_used && !has_window && model_type != ModelType::Llama && longest > DEFAULT_WINDOW {
        return Err(fields.wrong(format!(
            "`sliding_window` is missing, which is {DEFAULT_WINDOW} tokens to this type of model: write null if it has none"
        )));
    }
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
