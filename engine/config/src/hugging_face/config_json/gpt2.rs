//! GPT-2's fields.

use pipezero_models::shared::{Ablation, GptConfig, VocabularyOptions};

use super::fields::Fields;
use crate::hugging_face::error::ConfigFault;

/// The sizes, and [`PublishedModel::unequal_dropouts`](super::PublishedModel::unequal_dropouts).
pub(super) fn read(fields: &mut Fields<'_>) -> Option<(GptConfig, Option<ConfigFault>)> {
    let hidden_size = fields.needed("n_embd");
    let inner = fields.take("n_inner");
    if let (Some(inner), Some(hidden_size)) = (inner, hidden_size)
        && inner.number().and_then(|number| number.parse().ok()) != hidden_size.checked_mul(4)
    {
        fields.refuse("n_inner", inner, "only four times `n_embd` is offered, or null");
    }
    fields.only("activation_function", &["gelu_new", "gelu_pytorch_tanh"]);
    fields.only_number("layer_norm_epsilon", 1e-5);
    fields.only_flag("scale_attn_weights", true);
    fields.only_flag("scale_attn_by_inverse_layer_idx", false);
    fields.only_flag("add_cross_attention", false);
    let num_layers = fields.needed("n_layer");
    let num_heads = fields.needed("n_head");
    let seq_length = fields.needed("n_positions");
    let vocab_size = fields.needed("vocab_size");
    let tie_embeddings = fields.flag("tie_word_embeddings", true);
    let init_std = fields.number("initializer_range").unwrap_or(0.02);
    let (dropout, unequal_dropouts) = dropout(fields);
    let gpt = GptConfig {
        num_layers: num_layers?,
        hidden_size: hidden_size?,
        num_attention_heads: num_heads?,
        seq_length: seq_length?,
        vocab_size: vocab_size?,
        tie_embeddings,
        init_std,
        dropout,
        ablation: Ablation::None,
        vocabulary: VocabularyOptions::default(),
    };
    Some((gpt, unequal_dropouts))
}

/// The share of attention, and whether those of the two other places are others.
fn dropout(fields: &mut Fields<'_>) -> (f64, Option<ConfigFault>) {
    let attention = fields.number("attn_pdrop").unwrap_or(0.1);
    let others = ["resid_pdrop", "embd_pdrop"].map(|name| {
        let node = fields.take(name);
        (name, node, fields.number(name).unwrap_or(0.1))
    });
    let other = others.into_iter().find(|(_, _, share)| *share != attention);
    let fault = other.map(|(name, node, share)| {
        let message = format!(
            "`{name}` is {share}, but `attn_pdrop` {attention}: one share is offered for all three, which `model.dropout` says"
        );
        let repair = "write `model.dropout` into the run file, or make them equal".to_owned();
        ConfigFault { repair: Some(repair), ..fields.fault_at(node, message) }
    });
    (attention, fault)
}
