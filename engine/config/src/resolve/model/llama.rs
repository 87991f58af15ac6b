//! `model` of the Llama family: what it has beside the sizes of every model that reads tokens.

use crate::raw::RawModel;
use crate::resolved::{GptConfig, LlamaConfig};

use super::rope_scaling;
use super::sizes::positive;

/// Widths of gate and up are multiples of this where the file does not give one.
const FFN_MULTIPLE: usize = 256;

/// `gpt` is what every family has; its sizes are given beside it so that other keys are checked where it is not whole.
pub(super) fn resolve(
    raw: &RawModel,
    hidden_size: Option<usize>,
    num_heads: Option<usize>,
    gpt: Option<GptConfig>,
) -> Option<LlamaConfig> {
    let ffn_hidden_size = match raw.ffn_hidden_size.is_written() {
        true => raw.ffn_hidden_size.at_least_one(raw.ffn_hidden_size.given()),
        false => hidden_size
            .map(|width| width.saturating_mul(8).div_ceil(3).saturating_add(FFN_MULTIPLE - 1) / FFN_MULTIPLE)
            .map(|multiples| multiples * FFN_MULTIPLE),
    };
    let num_query_groups = query_groups(raw, num_heads);
    let kv_channels = head_size(raw, hidden_size, num_heads);
    let norm_epsilon = positive(&raw.norm_epsilon, 1e-5);
    let repair = "use a value such as 10000";
    let rotary_base = raw.rotary_base.or(10_000.0);
    let rotary_base =
        raw.rotary_base.keep(rotary_base, |base| base > 1.0, "it must be above 1: powers of it", repair);
    let rope_scaling = rope_scaling::resolve(&raw.rope_scaling);
    Some(LlamaConfig {
        gpt: gpt?,
        ffn_hidden_size: ffn_hidden_size?,
        num_query_groups: num_query_groups?,
        kv_channels: kv_channels?,
        norm_epsilon: norm_epsilon?,
        rotary_base: rotary_base?,
        rope_scaling: rope_scaling?,
        add_qkv_bias: raw.add_qkv_bias.or(false)?,
        add_proj_bias: raw.add_proj_bias.or(false)?,
        add_mlp_bias: raw.add_mlp_bias.or(false)?,
        qk_layernorm: raw.qk_layernorm.or(false)?,
    })
}

fn query_groups(raw: &RawModel, num_heads: Option<usize>) -> Option<usize> {
    let field = &raw.num_query_groups;
    let groups = field.at_least_one(if field.is_written() { field.given() } else { num_heads });
    let num_heads = num_heads?;
    let rule = format!(
        "`model.num_attention_heads` is {num_heads}, which it does not divide: as many heads of queries share each of keys"
    );
    field.keep(groups, |groups| num_heads.is_multiple_of(groups), &rule, "use a divisor such as 1")
}

/// Elements of a head; where they are not given, the caller has checked that heads divide the width.
fn head_size(raw: &RawModel, hidden_size: Option<usize>, num_heads: Option<usize>) -> Option<usize> {
    let rule = "rotary embeddings turn pairs of elements: a head has an even number of them";
    if raw.kv_channels.is_written() {
        let size = raw.kv_channels.at_least_one(raw.kv_channels.given());
        return raw.kv_channels.keep(size, |size| size.is_multiple_of(2), rule, "use an even number");
    }
    let (hidden_size, num_heads) = (hidden_size?, num_heads?);
    let size = hidden_size / num_heads;
    let rule = format!("`model.hidden_size` / {num_heads} is {size}, and {rule}");
    let repair = "use other sizes, or add `model.kv_channels`";
    raw.num_attention_heads.keep(Some(num_heads), |_| size.is_multiple_of(2), &rule, repair).map(|_| size)
}
