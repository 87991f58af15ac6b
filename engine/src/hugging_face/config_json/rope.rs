//! Rotary angles: `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of earlier versions.

use pipezero_models::RopeScaling;
use pipezero_models::llama::Yarn;

use super::fields::Fields;
use crate::hugging_face::HuggingFaceError;

const TYPES: [&str; 5] = ["default", "linear", "dynamic", "llama3", "yarn"];

/// The base, and how angles are scaled, of a model whose longest sequence is `longest`.
pub(super) fn read(fields: &mut Fields<'_>, longest: usize) -> Result<(f64, RopeScaling), HuggingFaceError> {
    let base = fields.number("rope_theta")?;
    fields.only_number("partial_rotary_factor", 1.0)?;
    let (parameters, older) = (fields.take("rope_parameters"), fields.take("rope_scaling"));
    let (node, name) = match (parameters, older) {
        (Some(_), Some(node)) => {
            let rule = "it stands beside `rope_parameters`: keep one of the two, with `rope_theta` in it";
            return Err(fields.refuse("rope_scaling", node, rule));
        }
        (Some(node), None) => (node, "rope_parameters"),
        (None, Some(node)) => (node, "rope_scaling"),
        (None, None) => return Ok((base.unwrap_or(10_000.0), RopeScaling::Default)),
    };
    let mut scaling = Fields::of(node, name)?;
    let base = scaling.number("rope_theta")?.or(base).unwrap_or(10_000.0);
    scaling.only_number("partial_rotary_factor", 1.0)?;
    // An old name, which some files have beside the new one.
    let key = if scaling.take("rope_type").is_some() { "rope_type" } else { "type" };
    let word = if scaling.take(key).is_some() { scaling.word(key, &TYPES)? } else { 0 };
    scaling.take("type");
    let original = scaling.size("original_max_position_embeddings")?;
    let mut factor = || {
        let factor = scaling.number("factor")?;
        factor.map_or_else(
            || Err(scaling.wrong(format!("`{name}.factor` is missing: angles are scaled by it"))),
            Ok,
        )
    };
    let rope = match TYPES[word] {
        "linear" => RopeScaling::Linear { factor: factor()? },
        // What the field above says has no part in this type.
        "dynamic" => RopeScaling::Dynamic { factor: factor()?, original_max_position_embeddings: longest },
        "llama3" => RopeScaling::Llama3 {
            factor: factor()?,
            low_freq_factor: scaling.number("low_freq_factor")?.unwrap_or(1.0),
            high_freq_factor: scaling.number("high_freq_factor")?.unwrap_or(4.0),
            original_max_position_embeddings: original.unwrap_or(longest),
        },
        "yarn" => {
            let original = original.unwrap_or(longest);
            let factor = scaling.number("factor")?.unwrap_or(longest as f64 / original as f64);
            RopeScaling::Yarn(yarn(&mut scaling, factor, original)?)
        }
        _ => RopeScaling::Default,
    };
    scaling.finish()?;
    Ok((base, rope))
}

fn yarn(scaling: &mut Fields<'_>, factor: f64, original: usize) -> Result<Yarn, HuggingFaceError> {
    let given = scaling.number("attention_factor")?;
    let scales = [scaling.number("mscale")?, scaling.number("mscale_all_dim")?];
    let attention_factor = given.unwrap_or_else(|| match scales {
        [Some(mscale), Some(all)] if mscale != 0.0 && all != 0.0 => {
            Yarn::attention_factor_of(factor, mscale, all)
        }
        _ => Yarn::default_attention_factor(factor),
    });
    let mut turns = |name, default| {
        Ok::<_, HuggingFaceError>(scaling.number(name)?.filter(|&turns| turns != 0.0).unwrap_or(default))
    };
    let (beta_fast, beta_slow) = (turns("beta_fast", 32.0)?, turns("beta_slow", 1.0)?);
    let truncate = scaling.flag("truncate", true)?;
    Ok(Yarn {
        factor,
        original_max_position_embeddings: original,
        attention_factor,
        beta_fast,
        beta_slow,
        truncate,
    })
}
