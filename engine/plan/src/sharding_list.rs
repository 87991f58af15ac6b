//! What becomes of each unit, as a list of names that a user may write down.

use std::collections::BTreeMap;

use pipezero_config::ShardingRule;
use pipezero_partition::{LayerGraph, UnitSharding};

use super::PlanError;
use super::sharding::{deciding_rules, kind};
use super::unit::PlannedUnit;

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
    let deciding = deciding_rules(&rules, graph, units)?;
    for (layer, wanted) in of_layers.into_iter().enumerate() {
        if deciding[layer].iter().any(|&rule| kind(&rules, rule) != wanted) {
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
    let forms_of_all = by_form(all);
    // What follows the same numbers stands together: `h[.][0-3]([.]attn|[.]mlp)`.
    let mut alike: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for (form, numbers) in by_form(names) {
        let of_numbers = match numbers.as_slice() {
            several if several.len() > 1 && several.len() == forms_of_all[&form].len() => {
                // One of the names may have no number there.
                if several.contains(&"") { "[0-9]*" } else { "[0-9]+" }.to_owned()
            }
            several => any_of(number_patterns(several)),
        };
        alike.entry((form.before, of_numbers)).or_default().push(escaped(form.after));
    }
    let of_alike = |((before, numbers), after): ((&str, String), Vec<String>)| {
        format!("{}{numbers}{}", escaped(before), any_of(after))
    };
    format!("^{}$", any_of(alike.into_iter().map(of_alike).collect()))
}

/// Alternatives; in brackets where there are several.
fn any_of(patterns: Vec<String>) -> String {
    if patterns.len() == 1 { patterns.concat() } else { format!("({})", patterns.join("|")) }
}

/// Patterns for these numbers, one for each run of last digits: 3, 4, 5, 10, 12 are `[3-5]`, `10` and `12`. A text that is
/// no plain number is its own pattern.
fn number_patterns(numbers: &[&str]) -> Vec<String> {
    let number = |text: &&str| text.parse::<u64>().ok().filter(|number| number.to_string() == **text);
    let Some(mut sorted) = numbers.iter().map(number).collect::<Option<Vec<u64>>>() else {
        return numbers.iter().map(|text| (*text).to_owned()).collect();
    };
    sorted.sort_unstable();
    let follows = |one: &u64, next: &u64| one + 1 == *next && one / 10 == next / 10;
    let of_run = |run: &[u64]| {
        let (first, last) = (run[0], run[run.len() - 1]);
        let tens = if first < 10 { String::new() } else { (first / 10).to_string() };
        match run.len() {
            1 => first.to_string(),
            _ => format!("{tens}[{}-{}]", first % 10, last % 10),
        }
    };
    sorted.chunk_by(follows).map(of_run).collect()
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
    use pipezero_config::pattern::regex;

    #[test]
    fn a_pattern_matches_the_given_names_alone() {
        let blocks: Vec<String> =
            (0..32).flat_map(|of| [format!("h.{of}.attn"), format!("h.{of}.mlp")]).collect();
        let ends = ["wte.0", "wte.1", "wpe", "ln_f", "a+b", "x01", "x1", "norm", "norm1"];
        let all: Vec<&str> = ends.into_iter().chain(blocks.iter().map(String::as_str)).collect();
        for (names, expected) in [
            (&all[..], "."),
            (&["wpe"], "^wpe$"),
            (&["wte.0", "wte.1"], "^wte[.][0-9]+$"),
            (&["h.0.mlp", "h.10.mlp"], "^h[.](0|10)[.]mlp$"),
            (&["ln_f", "a+b", "h.1.attn"], r"^(a\+b|h[.]1[.]attn|ln_f)$"),
            (&all[9..35], "^h[.]([0-9]|1[0-2])([.]attn|[.]mlp)$"),
            (&["x01"], "^x01$"),
            (&["x01", "x1"], "^x[0-9]+$"),
            (&["norm", "norm1"], "^norm[0-9]*$"),
        ] {
            let found = pattern(names, &all);
            assert_eq!(found, expected);
            let regex = regex(&found).unwrap();
            let matched: Vec<&str> = all.iter().copied().filter(|name| regex.is_match(name)).collect();
            assert_eq!(matched, names);
        }
    }
}
