//! `model`: the family and its sizes.
//!
//! Each kind of family reads its own keys, unless [`from`] takes them from a published model: [`gpt`] those of every family that reads tokens, [`llama`] those that Llama has beside them,
//! [`timed`] those of timed layers.

mod from;
mod gpt;
mod llama;
mod other_families;
mod rope_scaling;
mod sizes;
mod timed;

use std::path::Path;

use crate::raw::RawModel;
use crate::resolved::ModelConfig;
use crate::words::FamilyWord;

use crate::whole_number::MAX_COUNT;
use sizes::size;

/// A vocabulary has at least `fewest_tokens`.
pub(super) fn resolve(raw: &RawModel, fewest_tokens: usize, folder: &Path) -> Option<ModelConfig> {
    if !raw.head.is_written {
        let repair = "add one, such as \"model\": {\"family\": \"gpt2\", \"num_layers\": 12, \"hidden_size\": 768, \
                      \"num_attention_heads\": 12, \"seq_length\": 1024}";
        return raw.head.site.missing("there is nothing to train", repair);
    }
    let repair = "add \"gpt2\", \"llama\", \"mlp\" or \"timed\"";
    let model = if raw.from.is_written() {
        from::resolve(raw, fewest_tokens, folder)
    } else {
        let family = raw.family.required("it decides what the sizes mean", repair);
        let num_layers = size(&raw.num_layers);
        let seq_length = size(&raw.seq_length);
        match family {
            Some(FamilyWord::Timed) => timed::resolve(raw, num_layers, seq_length).map(ModelConfig::Timed),
            family => gpt::resolve(raw, family, [num_layers, seq_length], fewest_tokens),
        }
    }?;
    // So that no later product of sizes overflows.
    let parameters = model.num_parameters() as f64;
    if parameters > MAX_COUNT {
        let rule = "a model may have at most 2^53 parameters";
        return raw.head.site.broken(format!("{parameters:.1e} parameters large"), rule, "use smaller sizes");
    }
    Some(model)
}

/// Layers that stages are cut from, as far as they are known where something else is wrong with the model.
pub(super) fn num_layers(raw: &RawModel, model: Option<&ModelConfig>) -> Option<usize> {
    let written = raw.num_layers.given().filter(|&layers| layers > 0);
    written.or_else(|| model.map(ModelConfig::num_layers))
}

/// Whether the model's family reads text, as all do but one; a family that is not known may.
pub(super) fn may_read_text(raw: &RawModel) -> bool {
    raw.family.given() != Some(FamilyWord::Timed)
}
