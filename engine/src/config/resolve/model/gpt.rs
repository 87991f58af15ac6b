//! `model` of a family that reads tokens: GPT-2 and the MLP.

use crate::config::findings::Findings;
use crate::config::raw::RawModel;
use crate::config::resolved::{Ablation, GptConfig, ModelConfig};
use crate::config::words::FamilyWord;

use super::super::rules::below_one;
use super::sizes::{not_of_family, size};

/// A family that reads tokens; where the family is not known, only its sizes are checked.
pub(super) fn resolve(
    raw: &RawModel,
    family: Option<FamilyWord>,
    num_layers: Option<usize>,
    seq_length: Option<usize>,
    findings: &mut Findings,
) -> Option<ModelConfig> {
    let hidden_size = size(&raw.hidden_size, findings);
    let vocab_size = vocab_size(raw, findings);
    let num_attention_heads = heads(raw, family.as_ref(), hidden_size, findings);
    let init_std = init_std(raw, findings);
    let dropout = dropout(raw, family.as_ref(), findings);
    let family = family?;
    let name = if family == FamilyWord::Mlp { "mlp" } else { "gpt2" };
    let own = [
        not_of_family(&raw.parameters_per_layer, name, &["timed"], findings),
        not_of_family(&raw.activation_elements, name, &["timed"], findings),
        not_of_family(&raw.forward_ms, name, &["timed"], findings),
        not_of_family(&raw.backward_input_ms, name, &["timed"], findings),
        not_of_family(&raw.backward_weight_ms, name, &["timed"], findings),
        not_of_family(&raw.recompute_ms, name, &["timed"], findings),
    ];
    if own.contains(&None) {
        return None;
    }
    let config = GptConfig {
        num_layers: num_layers?,
        hidden_size: hidden_size?,
        num_attention_heads: num_attention_heads?,
        seq_length: seq_length?,
        vocab_size: vocab_size?,
        tie_embeddings: raw.tie_embeddings.or(family == FamilyWord::Gpt2)?,
        init_std: init_std?,
        dropout: dropout?,
        ablation: Ablation::None,
    };
    Some(if family == FamilyWord::Mlp { ModelConfig::Mlp(config) } else { ModelConfig::Gpt2(config) })
}

fn vocab_size(raw: &RawModel, findings: &mut Findings) -> Option<usize> {
    let value = raw.vocab_size.or(256)?;
    if value < 256 {
        let rule = "text is read as bytes, which are 256 tokens";
        findings.broken(&raw.vocab_size.place, value, rule, "use at least 256");
        return None;
    }
    if value >= u32::MAX as usize {
        let rule = "tokens are numbers of 32 bits, of which the largest marks a target without loss";
        findings.broken(&raw.vocab_size.place, value, rule, "use at most 4294967294");
        return None;
    }
    Some(value)
}

/// Attention heads. The MLP family has none, so there the key may be absent; where it stands it must still divide.
fn heads(
    raw: &RawModel,
    family: Option<&FamilyWord>,
    hidden_size: Option<usize>,
    findings: &mut Findings,
) -> Option<usize> {
    let field = &raw.num_attention_heads;
    if family == Some(&FamilyWord::Mlp) && !field.is_written() {
        return Some(1);
    }
    let heads = size(field, findings)?;
    let hidden_size = hidden_size?;
    if !hidden_size.is_multiple_of(heads) {
        // The next divisor below; no sane width is further than this from one.
        let below =
            (1..=heads.min(hidden_size)).rev().take(1024).find(|&heads| hidden_size.is_multiple_of(heads));
        let below = below.unwrap_or(1);
        let rule = format!(
            "`model.hidden_size` is {hidden_size}, which {heads} does not divide: every head has the same width"
        );
        findings.broken(&field.place, heads, rule, format!("use a divisor such as {below}"));
        return None;
    }
    Some(heads)
}

fn init_std(raw: &RawModel, findings: &mut Findings) -> Option<f64> {
    let value = raw.init_std.or(0.02)?;
    if value <= 0.0 {
        let rule = "equal weights never grow apart: it must be positive";
        findings.broken(&raw.init_std.place, value, rule, "use a value such as 0.02");
        return None;
    }
    Some(value)
}

/// The share that is dropped. The MLP family is for studies that compare bits and drops nothing.
fn dropout(raw: &RawModel, family: Option<&FamilyWord>, findings: &mut Findings) -> Option<f64> {
    let value = below_one(&raw.dropout, raw.dropout.or(0.0), 0.1, findings)?;
    if family == Some(&FamilyWord::Mlp) && value > 0.0 {
        let rule = "family \"mlp\" has no dropout";
        findings.broken(&raw.dropout.place, value, rule, "use 0, or family \"gpt2\"");
        return None;
    }
    Some(value)
}
