//! The names by which a run file means layers and parameters.

use pipezero_models::parameter::ParameterSpec;
use pipezero_partition::{LayerNode, Tying};
use regex::Regex;

/// A layer's name, and of a slice of the vocabulary's table also that of the whole table, so that a list does not depend on how
/// tables are cut.
fn names_of(layer: &LayerNode) -> impl Iterator<Item = &str> {
    let table = layer.name.rsplit_once('.').filter(|_| layer.is_slice).map(|(table, _)| table);
    [layer.name.as_str()].into_iter().chain(table)
}

/// `[parameter]`: whether a pattern is found in a name of it, or of its layer; `None` where it is found in none of these names.
fn found_in(pattern: &Regex, layer: &LayerNode, parameters: &[ParameterSpec]) -> Option<Vec<bool>> {
    let is_layer = names_of(layer).any(|name| pattern.is_match(name));
    let is_found = |spec: &ParameterSpec| is_layer || is_of_parameter(pattern, layer, spec);
    let found: Vec<bool> = parameters.iter().map(is_found).collect();
    (is_layer || found.contains(&true)).then_some(found)
}

/// Finds each pattern of a list in these names, and calls `take` with the pattern's number, the layer's number and which of the layer's parameters are meant.
/// Returns the numbers of patterns that are found nowhere. A pattern of `None` is no regular expression.
pub(super) fn find_all<'a>(
    patterns: impl Iterator<Item = Option<Regex>>,
    layers: impl Iterator<Item = &'a LayerNode> + Clone,
    parameters: &[Vec<ParameterSpec>],
    mut take: impl FnMut(usize, usize, Vec<bool>),
) -> Vec<usize> {
    let mut unmatched = Vec::new();
    for (number, pattern) in patterns.enumerate() {
        let mut is_matched = false;
        for (layer, (node, parameters)) in layers.clone().zip(parameters).enumerate() {
            let found = pattern.as_ref().and_then(|pattern| found_in(pattern, node, parameters));
            let Some(found) = found else { continue };
            is_matched = true;
            take(number, layer, found);
        }
        if !is_matched {
            unmatched.push(number);
        }
    }
    unmatched
}

fn is_of_parameter(pattern: &Regex, layer: &LayerNode, spec: &ParameterSpec) -> bool {
    pattern.is_match(&spec.name) || name_at_head(layer, spec).is_some_and(|name| pattern.is_match(&name))
}

/// What a tied weight would be called where the head uses it, if it were the head's own: `lm_head.weight` of `wte.weight`.
fn name_at_head(layer: &LayerNode, spec: &ParameterSpec) -> Option<String> {
    let (_, of_parameter) = spec.name.rsplit_once('.').filter(|_| layer.tying == Tying::Head)?;
    Some(format!("{}.{of_parameter}", names_of(layer).last()?))
}
