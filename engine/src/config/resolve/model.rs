//! `model`: the family and its sizes.

use crate::config::combination::approximate_parameters;
use crate::config::findings::Findings;
use crate::config::raw::RawModel;
use crate::config::resolved::{GptConfig, ModelConfig};
use crate::config::section::Field;
use crate::config::words::{FamilyWord, Unoffered, refuse};

use super::rules::{MAX_COUNT, at_least_one};

const UNOFFERED: Unoffered = Unoffered { later: &["llama"], never: &[] };

pub(super) fn resolve(raw: &RawModel, findings: &mut Findings) -> Option<ModelConfig> {
    if !raw.head.is_written {
        findings.missing(
            &raw.head.place,
            "there is nothing to train",
            "add a `model` with its `family` and sizes",
        );
        return None;
    }
    let family = raw.family.required(findings, "it decides what the sizes mean", "add \"gpt2\" or \"mlp\"");
    let family = family.and_then(|family| offered(family, raw, findings));
    let num_layers = size(&raw.num_layers, findings);
    let hidden_size = size(&raw.hidden_size, findings);
    let seq_length = size(&raw.seq_length, findings);
    let vocab_size = vocab_size(raw, findings);
    let num_attention_heads = heads(raw, family.as_ref(), hidden_size, findings);
    let init_std = init_std(raw, findings);
    let config = GptConfig {
        num_layers: num_layers?,
        hidden_size: hidden_size?,
        num_attention_heads: num_attention_heads?,
        seq_length: seq_length?,
        vocab_size: vocab_size?,
        tie_embeddings: raw.tie_embeddings.or(family == Some(FamilyWord::Gpt2))?,
        init_std: init_std?,
    };
    let model = match family? {
        FamilyWord::Mlp => ModelConfig::Mlp(config),
        FamilyWord::Gpt2 | FamilyWord::Other(_) => ModelConfig::Gpt2(config),
    };
    countable(model, raw, findings)
}

fn offered(family: FamilyWord, raw: &RawModel, findings: &mut Findings) -> Option<FamilyWord> {
    if let FamilyWord::Other(word) = &family {
        refuse(findings, &raw.family.place, word, FamilyWord::OFFERED, &UNOFFERED);
        return None;
    }
    Some(family)
}

fn size(field: &Field<usize>, findings: &mut Findings) -> Option<usize> {
    let value = field.required(findings, "the model's size is yours to choose", "add it");
    at_least_one(field, value, findings)
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

/// Refuses models whose parameters could not be counted, so that no later product of sizes overflows.
fn countable(model: ModelConfig, raw: &RawModel, findings: &mut Findings) -> Option<ModelConfig> {
    let parameters = approximate_parameters(&model);
    if parameters > MAX_COUNT {
        let rule = "a model may have at most 2^53 parameters";
        findings.broken(
            &raw.head.place,
            format!("{parameters:.1e} parameters large"),
            rule,
            "use smaller sizes",
        );
        return None;
    }
    Some(model)
}
