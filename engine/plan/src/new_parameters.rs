//! Parameters that are drawn although the run begins with weights that are read: those that a pattern of `init.new` matches, or whose layer it
//! does.

use std::collections::BTreeSet;

use pipezero_config::Run;
use pipezero_models::Model;
use pipezero_partition::LayerGraph;

use super::names::found_in;
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
    let mut new = BTreeSet::new();
    let mut unused = Vec::new();
    for (index, pattern) in run.init.new.iter().enumerate() {
        let regex = pattern.regex();
        let mut is_used = false;
        for (layer, node) in model.layers.iter().zip(graph.layers()) {
            let parameters = layer.layer.parameters();
            let Some(found) = found_in(&regex, node, &parameters) else { continue };
            is_used = true;
            let names = parameters.into_iter().zip(found).filter(|(_, is_found)| *is_found);
            new.extend(names.map(|(spec, _)| spec.name.clone()));
        }
        if !is_used {
            unused.push((index, pattern.to_string()));
        }
    }
    if unused.is_empty() {
        return Ok(new);
    }
    Err(PlanError::NewParameters(Box::new(UnmatchedNames::new(unused, graph.layers()))))
}
