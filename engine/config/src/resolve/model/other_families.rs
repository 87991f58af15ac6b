//! Keys that belong to other families than the model's.

use crate::raw::RawModel;
use crate::words::FamilyWord::{self, Llama, Timed};

use super::rope_scaling;
use super::sizes::not_of_family;

/// Reports the keys of timed layers, for a model of another family.
pub(super) fn no_timed_keys(raw: &RawModel, family: FamilyWord) -> Option<()> {
    let own = [
        not_of_family(&raw.parameters_per_layer, family, &[Timed]),
        not_of_family(&raw.activation_elements, family, &[Timed]),
        not_of_family(&raw.forward_ms, family, &[Timed]),
        not_of_family(&raw.backward_input_ms, family, &[Timed]),
        not_of_family(&raw.backward_weight_ms, family, &[Timed]),
        not_of_family(&raw.recompute_ms, family, &[Timed]),
    ];
    (!own.contains(&None)).then_some(())
}

/// Reports the keys that Llama alone has, for a model of another family.
pub(super) fn no_llama_keys(raw: &RawModel, family: FamilyWord) -> Option<()> {
    let rule = format!("it belongs to family \"llama\", not to \"{}\"", family.word());
    let own = [
        not_of_family(&raw.ffn_hidden_size, family, &[Llama]),
        not_of_family(&raw.num_query_groups, family, &[Llama]),
        not_of_family(&raw.kv_channels, family, &[Llama]),
        not_of_family(&raw.norm_epsilon, family, &[Llama]),
        not_of_family(&raw.rotary_base, family, &[Llama]),
        not_of_family(&raw.add_qkv_bias, family, &[Llama]),
        not_of_family(&raw.add_proj_bias, family, &[Llama]),
        not_of_family(&raw.add_mlp_bias, family, &[Llama]),
        not_of_family(&raw.qk_layernorm, family, &[Llama]),
        rope_scaling::absent(&raw.rope_scaling, &rule),
    ];
    (!own.contains(&None)).then_some(())
}
