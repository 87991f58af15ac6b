//! A config.json for a model of this program.

use pipezero_models::llama::Yarn;
use pipezero_models::shared::GptConfig;
use pipezero_models::{LlamaConfig, ModelConfig, RopeScaling};
use serde_json::{Value, json};

use super::{ModelType, PublishedModel, SpecialTokens};
use crate::hugging_face::HuggingFaceError;

impl PublishedModel {
    /// The model as transformers knows it.
    ///
    /// # Errors
    /// [`HuggingFaceError::NoArchitecture`] where transformers has no such model.
    pub fn of(model: &ModelConfig) -> Result<Self, HuggingFaceError> {
        let model_type = match model {
            ModelConfig::Gpt2(_) => ModelType::Gpt2,
            ModelConfig::Llama(llama) => type_of(llama)?,
            ModelConfig::Mlp(_) | ModelConfig::Timed(_) => {
                return Err(HuggingFaceError::of_family(model.facts().family));
            }
        };
        Ok(Self::new(model.clone(), model_type))
    }

    /// The text of its config.json for weights of f32. Of the model's tokens it knows none but these.
    pub fn config_json(&self, tokens: SpecialTokens) -> String {
        format!("{:#}\n", self.config_of(tokens, "float32"))
    }

    /// The fields of its config.json, for weights whose elements have the type that PyTorch calls `dtype`.
    pub(in crate::hugging_face) fn config_of(&self, tokens: SpecialTokens, dtype: &str) -> Value {
        let mut value = match &self.model {
            ModelConfig::Gpt2(gpt) => of_gpt2(gpt),
            ModelConfig::Llama(llama) => of_llama(llama, self.model_type),
            ModelConfig::Mlp(_) | ModelConfig::Timed(_) => unreachable!("transformers has no such model"),
        };
        value["bos_token_id"] = tokens.bos.into();
        value["eos_token_id"] = tokens.eos.into();
        value["torch_dtype"] = dtype.into();
        value
    }
}

fn no_architecture(what: impl Into<String>) -> HuggingFaceError {
    HuggingFaceError::NoArchitecture { what: what.into() }
}

/// The type whose code computes what this model does.
fn type_of(llama: &LlamaConfig) -> Result<ModelType, HuggingFaceError> {
    let LlamaConfig { add_qkv_bias, add_proj_bias, add_mlp_bias, qk_layernorm, .. } = *llama;
    let is_plain_width = llama.attended_width() == llama.gpt.hidden_size;
    let heads_divide = llama.gpt.hidden_size.is_multiple_of(llama.gpt.num_attention_heads);
    match (qk_layernorm, add_qkv_bias, add_proj_bias, add_mlp_bias) {
        (true, qkv, proj, false) if qkv == proj => Ok(ModelType::Qwen3),
        (true, ..) => Err(no_architecture("norms of heads beside biases of some linear maps alone")),
        (false, qkv, proj, _) if qkv == proj && heads_divide => Ok(ModelType::Llama),
        // transformers' Mistral does not ask that heads divide the width.
        (false, false, false, false) => Ok(ModelType::Mistral),
        (false, true, false, false) if is_plain_width => Ok(ModelType::Qwen2),
        _ => Err(no_architecture("biases of some linear maps alone")),
    }
}

fn of_gpt2(gpt: &GptConfig) -> Value {
    json!({
        "architectures": [ModelType::Gpt2.architecture()],
        "model_type": ModelType::Gpt2.name(),
        "vocab_size": gpt.vocab_size,
        "n_positions": gpt.seq_length,
        "n_embd": gpt.hidden_size,
        "n_layer": gpt.num_layers,
        "n_head": gpt.num_attention_heads,
        "activation_function": "gelu_new",
        "resid_pdrop": gpt.dropout,
        "embd_pdrop": gpt.dropout,
        "attn_pdrop": gpt.dropout,
        "layer_norm_epsilon": 1e-5,
        "initializer_range": gpt.init_std,
        "tie_word_embeddings": gpt.tie_embeddings,
    })
}

fn of_llama(llama: &LlamaConfig, model_type: ModelType) -> Value {
    let gpt = &llama.gpt;
    let mut value = json!({
        "architectures": [model_type.architecture()],
        "model_type": model_type.name(),
        "vocab_size": gpt.vocab_size,
        "hidden_size": gpt.hidden_size,
        "intermediate_size": llama.ffn_hidden_size,
        "num_hidden_layers": gpt.num_layers,
        "num_attention_heads": gpt.num_attention_heads,
        "num_key_value_heads": llama.num_query_groups,
        "head_dim": llama.kv_channels,
        "hidden_act": "silu",
        "max_position_embeddings": longest(llama),
        "initializer_range": gpt.init_std,
        "rms_norm_eps": llama.norm_epsilon,
        "tie_word_embeddings": gpt.tie_embeddings,
        "rope_theta": llama.rotary_base,
        "rope_scaling": rope_scaling(llama.rope_scaling),
        "attention_dropout": 0.0,
    });
    let own = match model_type {
        ModelType::Llama => json!({"attention_bias": llama.add_qkv_bias, "mlp_bias": llama.add_mlp_bias}),
        ModelType::Qwen3 => json!({"attention_bias": llama.add_qkv_bias}),
        ModelType::Mistral => json!({"sliding_window": null}),
        ModelType::Gpt2 | ModelType::Qwen2 => json!({}),
    };
    let fields = value.as_object_mut().expect("it is an object");
    fields.extend(own.as_object().expect("it is an object").clone());
    value
}

/// The longest sequence: the dynamic type reads from it where angles begin to change, and earlier versions of transformers the factor of
/// YaRN.
fn longest(llama: &LlamaConfig) -> usize {
    match llama.rope_scaling {
        RopeScaling::Dynamic { original_max_position_embeddings, .. } => original_max_position_embeddings,
        RopeScaling::Yarn(Yarn { factor, original_max_position_embeddings, .. }) => {
            let reached = factor * original_max_position_embeddings as f64;
            llama.gpt.seq_length.max(reached as usize)
        }
        _ => llama.gpt.seq_length,
    }
}

fn rope_scaling(scaling: RopeScaling) -> Value {
    match scaling {
        RopeScaling::Default => Value::Null,
        RopeScaling::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        RopeScaling::Dynamic { factor, .. } => json!({"rope_type": "dynamic", "factor": factor}),
        RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings,
        } => {
            json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_max_position_embeddings,
            })
        }
        RopeScaling::Yarn(Yarn {
            factor,
            original_max_position_embeddings,
            attention_factor,
            beta_fast,
            beta_slow,
            truncate,
        }) => json!({
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original_max_position_embeddings,
            "attention_factor": attention_factor,
            "beta_fast": beta_fast,
            "beta_slow": beta_slow,
            "truncate": truncate,
        }),
    }
}
