//! What becomes of each unit, as a list of names that a user may write down.

use std::collections::BTreeMap;

use pipezero_partition::{LayerGraph, UnitSharding};

use super::PlanError;
use super::sharding::deciding_rules;
use super::unit::PlannedUnit;
use crate::config::ShardingRule;

/// The entries for units of these kinds, one for each kind but what is sharded.
///
/// # Errors
/// [`PlanError::SameNames`] where a name is that of layers of several kinds.
pub(super) fn list(
    graph: &LayerGraph,
    units: &[PlannedUnit],
    kinds: &[UnitSharding],
) -> Result<Vec<ShardingRule>, PlanError> {
    let mut of_layers = vec![UnitSharding::Sharded; graph.num_layers()];
    for (unit, &kind) in units.iter().zip(kinds) {
        of_layers[unit.layers.clone()].fill(kind);
    }
    let all: Vec<&str> = graph.layers().map(|layer| layer.name.as_str()).collect();
    let rule = |sharding| {
        let names: Vec<&str> =
            all.iter().zip(&of_layers).filter(|of| *of.1 == sharding).map(|of| *of.0).collect();
        (!names.is_empty()).then(|| ShardingRule { sharding, pattern: pattern(&names, &all) })
    };
    let rules: Vec<ShardingRule> =
        [UnitSharding::Whole, UnitSharding::Persistent].into_iter().filter_map(rule).collect();
    let deciding = deciding_rules(&rules, graph)?;
    for (layer, kind) in of_layers.into_iter().enumerate() {
        let decided = deciding[layer].map_or(UnitSharding::Sharded, |rule| rules[rule].sharding);
        if decided != kind {
            return Err(PlanError::SameNames { name: graph.layer(layer).name.clone() });
        }
    }
    Ok(rules)
}

/// A regular expression that of all names matches these alone.
fn pattern(names: &[&str], all: &[&str]) -> String {
    if names.len() == all.len() {
        return ".".to_owned();
    }
    let forms = by_form(names);
    let forms_of_all = by_form(all);
    let of_form = |(form, numbers): (&Form<'_>, &Vec<&str>)| {
        let Form { before, after } = form;
        let numbers = match numbers.as_slice() {
            [number] => (*number).to_owned(),
            several if several.len() == forms_of_all[form].len() => "[0-9]+".to_owned(),
            several => format!("({})", several.join("|")),
        };
        format!("{}{numbers}{}", escaped(before), escaped(after))
    };
    let forms: Vec<String> = forms.iter().map(of_form).collect();
    match forms.as_slice() {
        [form] => format!("^{form}$"),
        several => format!("^({})$", several.join("|")),
    }
}

/// A name without its first number, which may be none: `h.3.mlp` is `h.` and `.mlp`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Form<'a> {
    before: &'a str,
    after: &'a str,
}

/// The numbers of the names of each form, in their order.
fn by_form<'a>(names: &[&'a str]) -> BTreeMap<Form<'a>, Vec<&'a str>> {
    let mut forms: BTreeMap<Form<'_>, Vec<&str>> = BTreeMap::new();
    for name in names {
        let start = name.find(|of: char| of.is_ascii_digit()).unwrap_or(name.len());
        let (before, rest) = name.split_at(start);
        let end = rest.find(|of: char| !of.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        forms.entry(Form { before, after }).or_default().push(number);
    }
    forms
}

/// The text as a pattern for itself; dots without a backslash, which JSON would want doubled.
fn escaped(text: &str) -> String {
    text.split('.').map(regex::escape).collect::<Vec<_>>().join("[.]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::pattern::regex;

    #[test]
    fn a_pattern_matches_the_given_names_alone() {
        let all = [
            "wte.0", "wte.1", "wpe", "h.0.attn", "h.0.mlp", "h.1.attn", "h.1.mlp", "h.10.mlp", "ln_f", "a+b",
        ];
        for (names, expected) in [
            (&all[..], "."),
            (&["wpe"], "^wpe$"),
            (&["wte.0", "wte.1"], "^wte[.][0-9]+$"),
            (&["h.0.mlp", "h.10.mlp"], "^h[.](0|10)[.]mlp$"),
            (&["h.1.attn", "ln_f", "a+b"], r"^(a\+b|h[.]1[.]attn|ln_f)$"),
        ] {
            let found = pattern(names, &all);
            assert_eq!(found, expected);
            let regex = regex(&found).unwrap();
            let matched: Vec<&str> = all.into_iter().filter(|name| regex.is_match(name)).collect();
            assert_eq!(matched, names.iter().copied().collect::<Vec<_>>());
        }
    }
}
