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
pub(super) fn found_in(
    pattern: &Regex,
    layer: &LayerNode,
    parameters: &[ParameterSpec],
) -> Option<Vec<bool>> {
    let is_layer = names_of(layer).any(|name| pattern.is_match(name));
    let is_found = |spec: &ParameterSpec| is_layer || is_of_parameter(pattern, layer, spec);
    let found: Vec<bool> = parameters.iter().map(is_found).collect();
    (is_layer || found.contains(&true)).then_some(found)
}

fn is_of_parameter(pattern: &Regex, layer: &LayerNode, spec: &ParameterSpec) -> bool {
    pattern.is_match(&spec.name) || name_at_head(layer, spec).is_some_and(|name| pattern.is_match(&name))
}

/// What a tied weight would be called where the head uses it, if it were the head's own: `lm_head.weight` of `wte.weight`.
fn name_at_head(layer: &LayerNode, spec: &ParameterSpec) -> Option<String> {
    let (_, of_parameter) = spec.name.rsplit_once('.').filter(|_| layer.tying == Tying::Head)?;
    Some(format!("{}.{of_parameter}", names_of(layer).last()?))
}
