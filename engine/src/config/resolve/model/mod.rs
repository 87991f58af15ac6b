//! `model`: the family and its sizes.
//!
//! Each kind of family reads its own keys: [`gpt`] those of GPT-2 and the MLP, [`timed`] those of timed layers.

mod gpt;
mod sizes;
mod timed;

use crate::config::findings::Findings;
use crate::config::raw::RawModel;
use crate::config::resolved::ModelConfig;
use crate::config::words::{FamilyWord, Unoffered, refuse};

use super::rules::MAX_COUNT;
use sizes::size;

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
    let family =
        raw.family.required(findings, "it decides what the sizes mean", "add \"gpt2\", \"mlp\" or \"timed\"");
    let family = family.and_then(|family| offered(family, raw, findings));
    let num_layers = size(&raw.num_layers, findings);
    let seq_length = size(&raw.seq_length, findings);
    let model = match family {
        Some(FamilyWord::Timed) => {
            timed::resolve(raw, num_layers, seq_length, findings).map(ModelConfig::Timed)
        }
        family => gpt::resolve(raw, family, num_layers, seq_length, findings),
    };
    countable(model?, raw, findings)
}

/// Whether the model's family reads text, as all do but one; a family that is not known may.
pub(super) fn may_read_text(raw: &RawModel) -> bool {
    raw.family.given() != Some(FamilyWord::Timed)
}

fn offered(family: FamilyWord, raw: &RawModel, findings: &mut Findings) -> Option<FamilyWord> {
    if let FamilyWord::Other(word) = &family {
        refuse(findings, &raw.family.place, word, FamilyWord::OFFERED, &UNOFFERED);
        return None;
    }
    Some(family)
}

/// Refuses models whose parameters could not be counted, so that no later product of sizes overflows.
fn countable(model: ModelConfig, raw: &RawModel, findings: &mut Findings) -> Option<ModelConfig> {
    let parameters = model.num_parameters() as f64;
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
