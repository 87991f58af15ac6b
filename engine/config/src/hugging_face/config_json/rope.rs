//! Rotary angles: `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of earlier versions.

use pipezero_models::RopeScaling;
use pipezero_models::llama::Yarn;

use super::fields::Fields;

const TYPES: [&str; 5] = ["default", "linear", "dynamic", "llama3", "yarn"];

/// The base where none is written.
const BASE: f64 = 10_000.0;

/// The base, and how angles are scaled, of a model whose longest sequence is `longest`.
pub(super) fn read(fields: &mut Fields<'_>, longest: usize) -> (f64, RopeScaling) {
    let base = fields.number("rope_theta");
    fields.only_number("partial_rotary_factor", 1.0);
    let (parameters, older) = (fields.take("rope_parameters"), fields.take("rope_scaling"));
    let (node, name) = match (parameters, older) {
        (Some(node), None) => (node, "rope_parameters"),
        (None, Some(node)) => (node, "rope_scaling"),
        (None, None) => return (base.unwrap_or(BASE), RopeScaling::Default),
        (Some(_), Some(node)) => {
            let rule = "it stands beside `rope_parameters`: keep one of the two, with `rope_theta` in it";
            fields.refuse("rope_scaling", node, rule);
            return (BASE, RopeScaling::Default);
        }
    };
    let Some(mut scaling) = fields.inner(node, name) else { return (BASE, RopeScaling::Default) };
    let base = scaling.number("rope_theta").or(base).unwrap_or(BASE);
    scaling.only_number("partial_rotary_factor", 1.0);
    let rope = rope_scaling(&mut scaling, name, longest);
    if rope.is_some() {
        scaling.finish();
    }
    fields.note_faults_of(scaling);
    (base, rope.unwrap_or(RopeScaling::Default))
}

/// `None` where it cannot be had, which is noted.
fn rope_scaling(scaling: &mut Fields<'_>, name: &str, longest: usize) -> Option<RopeScaling> {
    // An old name, which some files have beside the new one.
    let key = if scaling.take("rope_type").is_some() { "rope_type" } else { "type" };
    let word = if scaling.take(key).is_some() { scaling.word(key, &TYPES)? } else { 0 };
    scaling.take("type");
    let original = scaling.size("original_max_position_embeddings");
    let mut needed = |factor| {
        if scaling.take(factor).is_none() {
            scaling.wrong(format!("`{name}.{factor}` is missing: angles are scaled by it"));
        }
        scaling.number(factor)
    };
    Some(match TYPES[word] {
        "linear" => RopeScaling::Linear { factor: needed("factor")? },
        // What the field above says has no part in this type.
        "dynamic" => {
            RopeScaling::Dynamic { factor: needed("factor")?, original_max_position_embeddings: longest }
        }
        "llama3" => {
            let [factor, low, high] = ["factor", "low_freq_factor", "high_freq_factor"].map(needed);
            RopeScaling::Llama3 {
                factor: factor?,
                low_freq_factor: low?,
                high_freq_factor: high?,
                original_max_position_embeddings: original.unwrap_or(longest),
            }
        }
        "yarn" => {
            let original = original.unwrap_or(longest);
            let factor = scaling.number("factor").unwrap_or(longest as f64 / original as f64);
            RopeScaling::Yarn(yarn(scaling, factor, original))
        }
        _ => RopeScaling::Default,
    })
}

fn yarn(scaling: &mut Fields<'_>, factor: f64, original: usize) -> Yarn {
    let given = scaling.number("attention_factor");
    let scales = [scaling.number("mscale"), scaling.number("mscale_all_dim")];
    let attention_factor = given.unwrap_or_else(|| match scales {
        [Some(mscale), Some(all)] if mscale != 0.0 && all != 0.0 => {
            Yarn::attention_factor_of(factor, mscale, all)
        }
        _ => Yarn::default_attention_factor(factor),
    });
    let mut turns = |name, default| scaling.number(name).filter(|&turns| turns != 0.0).unwrap_or(default);
    let (beta_fast, beta_slow) = (turns("beta_fast", 32.0), turns("beta_slow", 1.0));
    let truncate = scaling.flag("truncate", true);
    Yarn {
        factor,
        original_max_position_embeddings: original,
        attention_factor,
        beta_fast,
        beta_slow,
        truncate,
    }
}
