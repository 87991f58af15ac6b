//! Keys without effect, wherever they stand: hints get their line, what is not offered its error.

use pipezero_files::json::Value;

use crate::keys::{F32_NAMES, Meaning};
use crate::kind::Auto;
use crate::raw::RawRun;
use crate::section::{Field, Foreign, Section};
use crate::words::OptimizerWord;

use super::rules;

/// Reports every key without effect.
pub(super) fn check(raw: &RawRun) {
    let mut heads = Vec::new();
    raw.heads(&mut heads);
    let zero_path = raw.zero_optimization.head.site.place.path.as_str();
    for head in heads.into_iter().filter(|head| head.site.place.path != zero_path) {
        for foreign in &head.foreign {
            match why_idle(raw, foreign) {
                Some(why) => foreign.site.hint(format!("no effect here: {why}")),
                None => report(foreign),
            }
        }
    }
    zero(raw);
    rules::extends(&raw.extends);
}

/// Names of keys, each with whether it is written: those that are, as a list; `None` if none is.
pub(super) fn written_keys(keys: &[(&str, bool)]) -> Option<String> {
    let written = keys.iter().filter(|(_, is_written)| *is_written).map(|(name, _)| format!("`{name}`"));
    let written: Vec<String> = written.collect();
    (!written.is_empty()).then(|| written.join(", "))
}

/// Keys of `zero_optimization`. Those that shape ZeRO-3 alone ask for nothing beside a lower level: one warning names
/// them together, the engine's own included.
fn zero(raw: &RawRun) {
    let zero = &raw.zero_optimization;
    let level = zero.stage.or(0).filter(|level| *level <= 2);
    let is_idle = |foreign: &Foreign| level.is_some() && foreign.key.is_zero3_alone();
    zero.head.foreign.iter().filter(|foreign| !is_idle(foreign)).for_each(report);
    let Some(level) = level else { return };
    let mut keys: Vec<_> =
        zero.head.foreign.iter().map(|foreign| (foreign.key.name, is_idle(foreign))).collect();
    keys.extend([
        ("resident_units", zero.resident_units.is_written()),
        ("prefetch_units", zero.prefetch_units.is_written()),
        ("parameters", zero.parameters.is_written()),
        ("sharding", zero.sharding.is_written()),
        ("stage3_param_persistence_threshold", zero.stage3_param_persistence_threshold.is_written()),
        ("stage3_model_persistence_threshold", zero.stage3_model_persistence_threshold.is_written()),
    ]);
    if let Some(keys) = written_keys(&keys) {
        zero.head.site.warn(format!(
            "ZeRO-{level} keeps every parameter gathered, so these keys of ZeRO-3 have no effect: {keys}"
        ));
    }
}

/// Why a key that asks for something not offered asks for nothing in this file.
fn why_idle(raw: &RawRun, foreign: &Foreign) -> Option<&'static str> {
    let Meaning::NotOffered { off, .. } = &foreign.key.meaning else { return None };
    match (foreign.key.name, &foreign.node.value) {
        _ if off.holds(&foreign.node) => None,
        // DeepSpeed's AdamW takes no notice of it: it makes its Adam AdamW or not (`runtime/engine.py:2100`).
        ("adam_w_mode", _) if raw.optimizer.r#type.or(OptimizerWord::AdamW)? == OptimizerWord::AdamW => {
            Some("AdamW's decay is apart from the gradient in any case")
        }
        ("param_dtype", Value::String(name)) => {
            let is_on = |enabled: &Field<Auto<bool>>| enabled.given() == Some(Auto::Value(true));
            let names: &[&str] = match (is_on(&raw.bf16.enabled), is_on(&raw.fp16.enabled)) {
                (true, _) => &["bf16", "bfloat16", "torch.bfloat16"],
                (_, true) => &["fp16", "float16", "half", "torch.float16"],
                _ => F32_NAMES,
            };
            names
                .contains(&name.to_lowercase().as_str())
                .then_some("it is the type that `bf16` and `fp16` select")
        }
        _ => None,
    }
}

fn report(foreign: &Foreign) {
    match &foreign.key.meaning {
        Meaning::Silent => {}
        Meaning::Hint(decides) => foreign.site.hint(format!("no effect here: {decides}")),
        Meaning::NotOffered { offer, off, what, repair } => {
            if !off.holds(&foreign.node) {
                let repair = repair.map_or_else(|| off.repair(), str::to_owned);
                let rule = format!("{what} is {}", offer.title().to_lowercase());
                foreign.site.broken::<()>(foreign.node.describe(), rule, repair);
            }
        }
    }
}
