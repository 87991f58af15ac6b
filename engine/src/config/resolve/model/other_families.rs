//! Keys that belong to other families than the model's.

use crate::config::raw::RawModel;

use super::rope_scaling;
use super::sizes::not_of_family;

/// Reports the keys of timed layers, for a model of another family.
pub(super) fn no_timed_keys(raw: &RawModel, family: &str) -> Option<()> {
    let own = [
        not_of_family(&raw.parameters_per_layer, family, &["timed"]),
        not_of_family(&raw.activation_elements, family, &["timed"]),
        not_of_family(&raw.forward_ms, family, &["timed"]),
        not_of_family(&raw.backward_input_ms, family, &["timed"]),
        not_of_family(&raw.backward_weight_ms, family, &["timed"]),
        not_of_family(&raw.recompute_ms, family, &["timed"]),
    ];
    (!own.contains(&None)).then_some(())
}

/// Reports the keys that Llama alone has, for a model of another family.
pub(super) fn no_llama_keys(raw: &RawModel, family: &str) -> Option<()> {
    let rule = format!("it belongs to family \"llama\", not to \"{family}\"");
    let own = [
        not_of_family(&raw.ffn_hidden_size, family, &["llama"]),
        not_of_family(&raw.num_query_groups, family, &["llama"]),
        not_of_family(&raw.kv_channels, family, &["llama"]),
        not_of_family(&raw.norm_epsilon, family, &["llama"]),
        not_of_family(&raw.rotary_base, family, &["llama"]),
        not_of_family(&raw.add_qkv_bias, family, &["llama"]),
        not_of_family(&raw.add_proj_bias, family, &["llama"]),
        not_of_family(&raw.add_mlp_bias, family, &["llama"]),
        not_of_family(&raw.qk_layernorm, family, &["llama"]),
        rope_scaling::absent(&raw.rope_scaling, &rule),
    ];
    (!own.contains(&None)).then_some(())
}
