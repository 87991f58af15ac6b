//! `model` of a family that reads tokens: GPT-2 and the MLP, and what Llama has in common with them.

use crate::raw::RawModel;
use crate::resolved::{Ablation, GptConfig, ModelConfig};
use crate::words::FamilyWord;
use pipezero_models::VocabularyOptions;

use super::llama;
use super::other_families::{no_llama_keys, no_timed_keys};
use super::sizes::{init_std, size};

/// A family that reads tokens; where the family is not known, only its sizes are checked.
pub(super) fn resolve(
    raw: &RawModel,
    family: Option<FamilyWord>,
    [num_layers, seq_length]: [Option<usize>; 2],
    fewest_tokens: usize,
) -> Option<ModelConfig> {
    let hidden_size = size(&raw.hidden_size);
    let vocab_size = vocab_size(raw, fewest_tokens);
    let num_attention_heads = heads(raw, family, hidden_size);
    let init_std = init_std(&raw.init_std, 0.02);
    let dropout = raw.dropout.below_one(raw.dropout.or(0.0), 0.1);
    let may_drop = |dropout| matches!(family, None | Some(FamilyWord::Gpt2)) || dropout <= 0.0;
    let rule = format!("family \"{}\" has no dropout", family.unwrap_or(FamilyWord::Gpt2).word());
    let dropout = raw.dropout.keep(dropout, may_drop, &rule, "use 0, or family \"gpt2\"");
    let family = family?;
    no_timed_keys(raw, family)?;
    let config = || {
        Some(GptConfig {
            num_layers: num_layers?,
            hidden_size: hidden_size?,
            num_attention_heads: num_attention_heads?,
            seq_length: seq_length?,
            vocab_size: vocab_size?,
            tie_embeddings: raw.tie_embeddings.or(family == FamilyWord::Gpt2)?,
            init_std: init_std?,
            dropout: dropout?,
            ablation: Ablation::None,
            // The plan resolves them.
            vocabulary: VocabularyOptions::default(),
        })
    };
    match family {
        FamilyWord::Llama => {
            llama::resolve(raw, hidden_size, num_attention_heads, config()).map(ModelConfig::Llama)
        }
        FamilyWord::Gpt2 | FamilyWord::Mlp => {
            no_llama_keys(raw, family)?;
            let of = if family == FamilyWord::Gpt2 { ModelConfig::Gpt2 } else { ModelConfig::Mlp };
            config().map(of)
        }
        FamilyWord::Timed => unreachable!("a timed model reads no tokens"),
    }
}

fn vocab_size(raw: &RawModel, fewest_tokens: usize) -> Option<usize> {
    let size = raw.vocab_size.at_least_one(raw.vocab_size.or(256));
    let rule = "text without `data.tokenizer` is read as bytes, which are 256 tokens";
    let size = raw.vocab_size.keep(size, |size| size >= fewest_tokens, rule, "use at least 256");
    let rule = "tokens are numbers of 32 bits, of which the largest marks a target without loss";
    raw.vocab_size.keep(size, |size| size < u32::MAX as usize, rule, "use at most 4294967294")
}

/// Attention heads. The MLP family has none, so there the key may be absent; where it stands it must still divide.
/// Llama's need not divide where it says how large they are.
fn heads(raw: &RawModel, family: Option<FamilyWord>, hidden_size: Option<usize>) -> Option<usize> {
    let field = &raw.num_attention_heads;
    if family == Some(FamilyWord::Mlp) && !field.is_written() {
        return Some(1);
    }
    let heads = size(field)?;
    if family == Some(FamilyWord::Llama) && raw.kv_channels.is_written() {
        return Some(heads);
    }
    let hidden_size = hidden_size?;
    if hidden_size.is_multiple_of(heads) {
        return Some(heads);
    }
    // The next divisor below; no sane width is further than this from one.
    let below =
        (1..=heads.min(hidden_size)).rev().take(1024).find(|&heads| hidden_size.is_multiple_of(heads));
    let rule = format!(
        "`model.hidden_size` is {hidden_size}, which {heads} does not divide: every head has the same width"
    );
    field.broken(heads, rule, format!("use a divisor such as {}", below.unwrap_or(1)))
}
