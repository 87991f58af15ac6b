//! Parameters that are drawn although the run begins with weights that are read: those that a pattern of `init.new` matches, or whose layer it
//! does.

use std::collections::BTreeSet;

use pipezero_config::Run;
use pipezero_models::Model;
use pipezero_models::parameter::ParameterSpec;
use pipezero_partition::LayerGraph;

use super::names::find_all;
use super::unmatched_names::UnmatchedNames;
use super::{Plan, PlanError};

pub(super) const NEW: &str = "init.new";

impl Plan {
    /// Whether the parameter of this name is drawn although the run begins with weights that are read.
    pub fn is_new(&self, parameter: &str) -> bool {
        self.new_parameters.contains(parameter)
    }

    /// The names of these parameters.
    pub fn new_parameters(&self) -> &BTreeSet<String> {
        &self.new_parameters
    }
}

/// Finds them.
///
/// # Errors
/// [`PlanError::NewParameters`] where patterns match nothing.
pub(super) fn found(run: &Run, model: &Model, graph: &LayerGraph) -> Result<BTreeSet<String>, PlanError> {
    let parameters: Vec<Vec<ParameterSpec>> =
        model.layers.iter().map(|layer| layer.layer.parameters()).collect();
    let mut new = BTreeSet::new();
    let patterns = &run.init.new;
    let regexes = patterns.iter().map(|pattern| Some(pattern.regex()));
    let unused = find_all(regexes, graph.layers(), &parameters, |_, layer, found| {
        let names = parameters[layer].iter().zip(found).filter(|(_, is_found)| *is_found);
        new.extend(names.map(|(spec, _)| spec.name.clone()));
    });
    if unused.is_empty() {
        return Ok(new);
    }
    Err(PlanError::NewParameters(Box::new(UnmatchedNames::of(patterns, unused, graph.layers()))))
}
