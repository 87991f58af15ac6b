//! What becomes of each parameter under ZeRO-3: what the run's list of names says, and which are small enough to persist. So units have
//! parts.

use std::collections::HashMap;

use pipezero_models::parameter::ParameterSpec;
use pipezero_models::unit::ParameterEntry;
use pipezero_partition::{LayerGraph, Tying, UnitSharding};

use super::frozen::names_of;
use super::unit::PlannedUnit;
use super::unmatched_names::UnmatchedNames;
use super::{Plan, PlanError};
use crate::config::{ReductionPolicy, Run, ShardingConfig, ShardingRule, ZeroLevel, pattern};

impl Plan {
    /// Whether every unit persists and gradients are reduced after every micro-batch: ZeRO-2 by another name.
    pub(super) fn is_zero_2(&self) -> bool {
        let run = &self.run;
        run.zero.level == ZeroLevel::Zero3
            && run.zero.reduce == ReductionPolicy::Every
            && self.units.iter().all(PlannedUnit::is_persistent)
    }

    /// Refuses that in a pipeline, as ZeRO-2 is.
    ///
    /// # Errors
    /// [`PlanError::AllPersistent`].
    pub(super) fn refuse_all_persistent(&self) -> Result<(), PlanError> {
        let (num_units, pipeline) = (self.units.len(), self.grid.pipeline_degree);
        if pipeline > 1 && self.is_zero_2() {
            return Err(PlanError::AllPersistent { num_units, pipeline });
        }
        Ok(())
    }
}

/// Marks the units' parameters.
///
/// # Errors
/// [`PlanError::ShardingRules`] where entries of the list cannot be followed.
pub(super) fn mark(run: &Run, graph: &LayerGraph, units: &mut [PlannedUnit]) -> Result<(), PlanError> {
    if run.zero.level != ZeroLevel::Zero3 {
        return Ok(());
    }
    // What the plan is to choose it chooses among units that are all sharded.
    let ShardingConfig::Listed(rules) = &run.zero.sharding else { return Ok(()) };
    if rules.is_empty() {
        mark_persistent(run, units);
        return Ok(());
    }
    let deciding = deciding_rules(rules, graph, units)?;
    for unit in units {
        let of_unit: Vec<Option<usize>> = deciding[unit.layers.clone()].concat();
        let kinds: Vec<UnitSharding> = of_unit.into_iter().map(|rule| kind(rules, rule)).collect();
        unit.divide(&kinds, run.parallel.data);
    }
    Ok(())
}

/// What becomes of what this entry decides about.
pub(super) fn kind(rules: &[ShardingRule], deciding: Option<usize>) -> UnitSharding {
    deciding.map_or(UnitSharding::Sharded, |rule| rules[rule].sharding)
}

/// `[layer][parameter]`: the last entry that matches the name of the parameter or of its layer, or those of the other use of its tied
/// weight.
pub(super) fn deciding_rules(
    rules: &[ShardingRule],
    graph: &LayerGraph,
    units: &[PlannedUnit],
) -> Result<Vec<Vec<Option<usize>>>, PlanError> {
    let layers = units.iter().flat_map(|unit| unit.unit.layers());
    let parameters: Vec<Vec<ParameterSpec>> = layers.map(|layer| layer.parameters()).collect();
    let mut deciding: Vec<Vec<Option<usize>>> = parameters.iter().map(|of| vec![None; of.len()]).collect();
    let mut unused = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        // One that is no expression is refused where the file is read.
        let regex = pattern::regex(&rule.pattern).ok();
        let is_match = |name: &str| regex.as_ref().is_some_and(|regex| regex.is_match(name));
        let mut is_used = false;
        for (layer, node) in graph.layers().enumerate() {
            let is_layer = names_of(node).any(is_match);
            is_used |= is_layer;
            for (spec, decided) in parameters[layer].iter().zip(&mut deciding[layer]) {
                if is_layer || is_match(&spec.name) {
                    *decided = Some(index);
                    is_used = true;
                }
            }
        }
        if !is_used {
            unused.push((index, rule.to_string()));
        }
    }
    if !unused.is_empty() {
        return Err(PlanError::ShardingRules(Box::new(UnmatchedNames::new(unused, graph.layers()))));
    }
    let uses = |tying| {
        let layers = graph.layers().enumerate();
        layers.filter(move |(_, node)| node.tying == tying).map(|(layer, _)| layer).collect::<Vec<_>>()
    };
    for (embedding, head) in uses(Tying::Embedding).into_iter().zip(uses(Tying::Head)) {
        for parameter in 0..deciding[embedding].len().min(deciding[head].len()) {
            let of_both = deciding[embedding][parameter].max(deciding[head][parameter]);
            (deciding[embedding][parameter], deciding[head][parameter]) = (of_both, of_both);
        }
    }
    Ok(deciding)
}

/// Marks the parameters that are small enough to stay gathered, in the order of declaration, passing over those that would exceed the model's
/// threshold: DeepSpeed's rule. Both uses of a tied weight are one parameter, and so are the slices of a table.
fn mark_persistent(run: &Run, units: &mut [PlannedUnit]) {
    let (of_parameter, of_model) =
        (run.zero.param_persistence_threshold, run.zero.model_persistence_threshold);
    let mut num_elements = 0_u64;
    let mut known: HashMap<String, UnitSharding> = HashMap::new();
    for unit in units {
        let kind = |entry: &ParameterEntry| {
            *known.entry(entry.spec.name.clone()).or_insert_with(|| {
                let own = entry.spec.num_elements_of_all() as u64;
                let with_own = num_elements.saturating_add(own);
                if own > of_parameter || with_own > of_model {
                    return UnitSharding::Sharded;
                }
                num_elements = with_own;
                UnitSharding::Persistent
            })
        };
        let kinds: Vec<UnitSharding> = unit.unit.entries().iter().map(kind).collect();
        unit.divide(&kinds, run.parallel.data);
    }
}
