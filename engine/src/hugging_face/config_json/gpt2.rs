//! GPT-2's fields.

use pipezero_models::shared::{Ablation, GptConfig, VocabularyOptions};

use super::fields::Fields;
use crate::hugging_face::HuggingFaceError;

pub(super) fn read(fields: &mut Fields<'_>) -> Result<GptConfig, HuggingFaceError> {
    let hidden_size = fields.needed("n_embd")?;
    let inner = fields.take("n_inner");
    if let Some(inner) = inner
        && inner.number().and_then(|number| number.parse().ok()) != hidden_size.checked_mul(4)
    {
        return Err(fields.refuse("n_inner", inner, "only four times `n_embd` is offered, or null"));
    }
    fields.only("activation_function", &["gelu_new", "gelu_pytorch_tanh"])?;
    fields.only_number("layer_norm_epsilon", 1e-5)?;
    fields.only_flag("scale_attn_weights", true)?;
    fields.only_flag("scale_attn_by_inverse_layer_idx", false)?;
    fields.only_flag("add_cross_attention", false)?;
    // Which precision attention is computed in.
    fields.flag("reorder_and_upcast_attn", false)?;
    Ok(GptConfig {
        num_layers: fields.needed("n_layer")?,
        hidden_size,
        num_attention_heads: fields.needed("n_head")?,
        seq_length: fields.needed("n_positions")?,
        vocab_size: fields.needed("vocab_size")?,
        tie_embeddings: fields.flag("tie_word_embeddings", true)?,
        init_std: fields.number("initializer_range")?.unwrap_or(0.02),
        dropout: dropout(fields)?,
        ablation: Ablation::None,
        vocabulary: VocabularyOptions::default(),
    })
}

/// One share for all three places.
fn dropout(fields: &mut Fields<'_>) -> Result<f64, HuggingFaceError> {
    let attention = fields.number("attn_pdrop")?.unwrap_or(0.1);
    for name in ["resid_pdrop", "embd_pdrop"] {
        let node = fields.take(name);
        if fields.number(name)?.unwrap_or(0.1) != attention {
            let message = format!(
                "`{name}` and `attn_pdrop`, which is {attention}, are not equal: one share is offered for all"
            );
            return Err(
                node.map_or_else(|| fields.wrong(&message), |node| fields.refuse(name, node, &message))
            );
        }
    }
    Ok(attention)
}
