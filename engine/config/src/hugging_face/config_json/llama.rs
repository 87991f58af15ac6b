//! The fields of Llama and of what is built like it.

use pipezero_files::json::Value;
use pipezero_models::LlamaConfig;
use pipezero_models::shared::{Ablation, GptConfig, VocabularyOptions};

use super::ModelType;
use super::fields::Fields;
use super::rope;

/// The sizes, and the window of [`PublishedModel::window`](super::PublishedModel::window).
pub(super) fn read(fields: &mut Fields<'_>, model_type: ModelType) -> Option<(LlamaConfig, Option<usize>)> {
    let (hidden_size, num_heads) = (fields.needed("hidden_size"), fields.needed("num_attention_heads"));
    fields.only("hidden_act", &["silu", "swish"]);
    fields.only_number("attention_dropout", 0.0);
    fields.only_number("pretraining_tp", 1.0);
    fields.only_flag("rope_interleaved", false);
    let longest = fields.size("max_position_embeddings").unwrap_or_else(|| longest_of(model_type));
    let window = window(fields, model_type);
    let (rotary_base, rope_scaling) = rope::read(fields, longest);
    let num_query_groups = query_groups(fields, model_type, num_heads);
    let kv_channels = head_dim(fields, model_type, hidden_size, num_heads);
    let attention_bias = match model_type {
        ModelType::Llama | ModelType::Qwen3 => fields.flag("attention_bias", false),
        ModelType::Gpt2 | ModelType::Mistral | ModelType::Qwen2 => false,
    };
    let (num_layers, vocab_size) = (fields.needed("num_hidden_layers"), fields.needed("vocab_size"));
    let ffn_hidden_size = fields.needed("intermediate_size");
    // Everything is read before the first that is missing ends it: the fields behind would be taken for unknown ones.
    let tie_embeddings = fields.flag("tie_word_embeddings", false);
    let init_std = fields.number("initializer_range").unwrap_or(0.02);
    let norm_epsilon = fields.number("rms_norm_eps").unwrap_or(1e-6);
    let add_mlp_bias = model_type == ModelType::Llama && fields.flag("mlp_bias", false);
    let gpt = GptConfig {
        num_layers: num_layers?,
        hidden_size: hidden_size?,
        num_attention_heads: num_heads?,
        seq_length: longest,
        vocab_size: vocab_size?,
        tie_embeddings,
        init_std,
        dropout: 0.0,
        ablation: Ablation::None,
        vocabulary: VocabularyOptions::default(),
    };
    let llama = LlamaConfig {
        gpt,
        ffn_hidden_size: ffn_hidden_size?,
        num_query_groups: num_query_groups?,
        kv_channels: kv_channels?,
        norm_epsilon,
        rotary_base,
        rope_scaling,
        add_qkv_bias: attention_bias || model_type == ModelType::Qwen2,
        add_proj_bias: attention_bias,
        add_mlp_bias,
        qk_layernorm: model_type == ModelType::Qwen3,
    };
    Some((llama, window.filter(|&window| window < longest)))
}

/// The longest sequence where the field is missing: what the type's code takes.
fn longest_of(model_type: ModelType) -> usize {
    match model_type {
        ModelType::Mistral => 4096 * 32,
        ModelType::Qwen2 | ModelType::Qwen3 => 32_768,
        ModelType::Gpt2 | ModelType::Llama => 2048,
    }
}

/// Heads of keys. Where the field is missing, what the type's code takes; null is as many as of queries.
fn query_groups(fields: &mut Fields<'_>, model_type: ModelType, num_heads: Option<usize>) -> Option<usize> {
    let name = "num_key_value_heads";
    let is_absent = !fields.has(name);
    let groups = fields.size(name);
    if let (Some(node), Some(groups), Some(num_heads)) = (fields.take(name), groups, num_heads)
        && !num_heads.is_multiple_of(groups)
    {
        let rule = format!("it must divide `num_attention_heads`, which is {num_heads}");
        fields.refuse(name, node, &rule);
    }
    groups.or(match model_type {
        ModelType::Mistral if is_absent => Some(8),
        ModelType::Qwen2 | ModelType::Qwen3 if is_absent => Some(32),
        _ => num_heads,
    })
}

/// Elements of a head. Where the field is missing, what the type's code takes; null is the width divided by the heads.
fn head_dim(
    fields: &mut Fields<'_>,
    model_type: ModelType,
    hidden_size: Option<usize>,
    num_heads: Option<usize>,
) -> Option<usize> {
    let is_of_128 = model_type == ModelType::Qwen3 && !fields.has("head_dim");
    let size = fields.size("head_dim");
    if let (Some(node), Some(size)) = (fields.take("head_dim"), size)
        && !size.is_multiple_of(2)
    {
        fields.refuse("head_dim", node, "it must be even: rotary embeddings turn pairs of elements");
    }
    if is_of_128 { Some(128) } else { size.or_else(|| Some(hidden_size? / num_heads?)) }
}

/// Tokens that the code of some types sees where config.json does not say how many.
const DEFAULT_WINDOW: usize = 4096;

/// How many tokens a token sees in some layers, itself among them, where it does not see all before it.
fn window(fields: &mut Fields<'_>, model_type: ModelType) -> Option<usize> {
    let is_absent = !fields.has("sliding_window");
    let written = fields.size("sliding_window");
    let is_used = match model_type {
        ModelType::Qwen2 | ModelType::Qwen3 => fields.flag("use_sliding_window", false),
        _ => true,
    };
    if model_type == ModelType::Qwen2 {
        fields.only_flag("use_mrope", false);
    }
    // From which layer on there is a window, which is looked at as if all layers had it.
    fields.number("max_window_layers");
    let default = (is_absent && model_type != ModelType::Llama).then_some(DEFAULT_WINDOW);
    let window = written.or(default).filter(|_| is_used);
    let name = "layer_types";
    if let Some(types) = fields.take(name) {
        let is_known = |value: &Value| match value {
            Value::String(word) => {
                word == "full_attention" || word == "sliding_attention" && window.is_some()
            }
            _ => false,
        };
        match &types.value {
            Value::Array(layers) if layers.iter().all(|layer| is_known(&layer.value)) => {}
            _ => fields.refuse(name, types, "only layers of \"full_attention\" are offered"),
        }
    }
    window
}
