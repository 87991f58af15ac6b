//! `model.rope_scaling`: how rotary angles are scaled.

use crate::raw::RawRopeScaling;
use crate::resolved::{RopeScaling, Yarn};
use crate::section::Field;
use crate::words::{RopeWord, one_of};

use super::sizes::positive;

/// Without the section angles are as they are.
pub(super) fn resolve(raw: &RawRopeScaling) -> Option<RopeScaling> {
    use RopeWord::{Default, Dynamic, Linear, Llama3, Yarn};
    let word = raw.rope_type.or(Default)?;
    let own = [
        only_for(
            &raw.factor,
            word,
            &[(Linear, "linear"), (Dynamic, "dynamic"), (Llama3, "llama3"), (Yarn, "yarn")],
        ),
        only_for(
            &raw.original_max_position_embeddings,
            word,
            &[(Dynamic, "dynamic"), (Llama3, "llama3"), (Yarn, "yarn")],
        ),
        only_for(&raw.low_freq_factor, word, &[(Llama3, "llama3")]),
        only_for(&raw.high_freq_factor, word, &[(Llama3, "llama3")]),
        only_for(&raw.attention_factor, word, &[(Yarn, "yarn")]),
        only_for(&raw.beta_fast, word, &[(Yarn, "yarn")]),
        only_for(&raw.beta_slow, word, &[(Yarn, "yarn")]),
        only_for(&raw.truncate, word, &[(Yarn, "yarn")]),
    ];
    if own.contains(&None) {
        return None;
    }
    match word {
        Default => Some(RopeScaling::Default),
        Linear => Some(RopeScaling::Linear { factor: factor(raw)? }),
        Dynamic => {
            let (factor, original_max_position_embeddings) = factor_and_original(raw)?;
            Some(RopeScaling::Dynamic { factor, original_max_position_embeddings })
        }
        Llama3 => {
            let sizes = factor_and_original(raw);
            let [low_freq_factor, high_freq_factor] =
                in_order([&raw.low_freq_factor, &raw.high_freq_factor], [1.0, 4.0])?;
            let (factor, original_max_position_embeddings) = sizes?;
            Some(RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            })
        }
        Yarn => yarn(raw).map(RopeScaling::Yarn),
    }
}

fn yarn(raw: &RawRopeScaling) -> Option<Yarn> {
    let sizes = factor_and_original(raw);
    let [beta_slow, beta_fast] = in_order([&raw.beta_slow, &raw.beta_fast], [1.0, 32.0])?;
    let (factor, original_max_position_embeddings) = sizes?;
    let attention_factor = positive(&raw.attention_factor, Yarn::default_attention_factor(factor))?;
    let truncate = raw.truncate.or(true)?;
    Some(Yarn { factor, original_max_position_embeddings, attention_factor, beta_fast, beta_slow, truncate })
}

fn factor(raw: &RawRopeScaling) -> Option<f64> {
    let factor = raw.factor.required("angles are scaled by it", "add it, or remove `rope_scaling`");
    raw.factor.keep(factor, |factor| factor >= 1.0, "it must be at least 1", "use a value such as 8")
}

fn factor_and_original(raw: &RawRopeScaling) -> Option<(f64, usize)> {
    let field = &raw.original_max_position_embeddings;
    let rule = "what is scaled depends on the longest sequence of the training";
    let original = field.at_least_one(field.required(rule, "add it"));
    Some((factor(raw)?, original?))
}

/// Two numbers of turns, the first below the second.
fn in_order([low, high]: [&Field<f64>; 2], [low_default, high_default]: [f64; 2]) -> Option<[f64; 2]> {
    let low_value = positive(low, low_default)?;
    let high_value = positive(high, high_default)?;
    if low_value < high_value {
        return Some([low_value, high_value]);
    }
    let [low_path, high_path] = [low, high].map(|field| &field.site.place.path);
    if low.is_written() {
        let rule = format!("it must be below `{high_path}`, which is {high_value}");
        return low.broken(low_value, rule, "change one of them");
    }
    high.broken(
        high_value,
        format!("it must be above `{low_path}`, which is {low_value}"),
        "change one of them",
    )
}

/// Reports a key that says nothing to this type.
fn only_for<T: Clone>(field: &Field<T>, word: RopeWord, owners: &[(RopeWord, &str)]) -> Option<()> {
    if owners.iter().any(|(owner, _)| *owner == word) {
        return Some(());
    }
    let names: Vec<&str> = owners.iter().map(|(_, name)| *name).collect();
    let rule = format!("it belongs to `rope_type` {}", one_of(&names));
    field.absent(|_| field.site.place.written(), &rule)
}

/// Reports every key of the section by a rule that forbids it.
pub(super) fn absent(raw: &RawRopeScaling, rule: &str) -> Option<()> {
    fn no<T: Clone>(field: &Field<T>, rule: &str) -> Option<()> {
        field.absent(|_| field.site.place.written(), rule)
    }
    let keys = [
        no(&raw.rope_type, rule),
        no(&raw.factor, rule),
        no(&raw.original_max_position_embeddings, rule),
        no(&raw.low_freq_factor, rule),
        no(&raw.high_freq_factor, rule),
        no(&raw.attention_factor, rule),
        no(&raw.beta_fast, rule),
        no(&raw.beta_slow, rule),
        no(&raw.truncate, rule),
    ];
    (!keys.contains(&None)).then_some(())
}
