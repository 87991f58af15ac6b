//! What the keys of all families have in common.

use crate::config::raw::RawModel;
use crate::config::section::Field;
use crate::config::words::one_of;

use super::rope_scaling;

/// A size that the user chooses: needed, and at least 1.
pub(super) fn size(field: &Field<usize>) -> Option<usize> {
    field.at_least_one(field.required("the model's size is yours to choose", "add it"))
}

/// Reports a key that says nothing to the family of this model, whatever its value.
pub(super) fn not_of_family<T: Clone>(field: &Field<T>, family: &str, owners: &[&str]) -> Option<()> {
    let rule = format!("it belongs to family {}, not to \"{family}\"", one_of(owners));
    field.absent(|_| field.site.place.written(), &rule)
}

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
