//! What becomes of each unit under ZeRO-3: what the run's list of names says, and which units are small enough to persist.

use pipezero_partition::{LayerGraph, Tying, UnitSharding};

use super::sharding_fault::ShardingFault;
use super::unit::PlannedUnit;
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

/// Marks the units.
///
/// # Errors
/// [`PlanError::ShardingRule`] where an entry of the list cannot be followed.
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
    let deciding = deciding_rules(rules, graph)?;
    let of_layer = |layer: usize| deciding[layer].map_or(UnitSharding::Sharded, |rule| rules[rule].sharding);
    for unit in units {
        let first = unit.layers.start;
        unit.sharding = of_layer(first);
        let other = unit.layers.clone().find(|&layer| of_layer(layer) != unit.sharding);
        if let Some(other) = other {
            let name = |layer: usize| graph.layer(layer).name.clone();
            let [decided, left] = if deciding[other].is_some() { [other, first] } else { [first, other] };
            let rule =
                deciding[decided].expect("two layers differ by an entry that decides about one of them");
            let unit = [name(first), name(unit.layers.end - 1)];
            let fault = ShardingFault::DividedUnit { unit, layers: [name(decided), name(left)] };
            return Err(PlanError::ShardingRule { rule: rules[rule].to_string(), fault: Box::new(fault) });
        }
    }
    Ok(())
}

/// `[layer]`: the last entry that matches the layer's name, or that of the other use of its tied weight.
pub(super) fn deciding_rules(
    rules: &[ShardingRule],
    graph: &LayerGraph,
) -> Result<Vec<Option<usize>>, PlanError> {
    let mut deciding = vec![None; graph.num_layers()];
    for (index, rule) in rules.iter().enumerate() {
        let regex = pattern::regex(&rule.pattern)
            .map_err(|_| PlanError::ShardingRule { rule: rule.to_string(), fault: matches_nothing(graph) })?;
        let mut is_used = false;
        for (layer, node) in graph.layers().enumerate() {
            if regex.is_match(&node.name) {
                deciding[layer] = Some(index);
                is_used = true;
            }
        }
        if !is_used {
            return Err(PlanError::ShardingRule { rule: rule.to_string(), fault: matches_nothing(graph) });
        }
    }
    let uses = |tying| {
        let layers = graph.layers().enumerate();
        layers.filter(move |(_, node)| node.tying == tying).map(|(layer, _)| layer).collect::<Vec<_>>()
    };
    for (embedding, head) in uses(Tying::Embedding).into_iter().zip(uses(Tying::Head)) {
        let of_both = deciding[embedding].max(deciding[head]);
        (deciding[embedding], deciding[head]) = (of_both, of_both);
    }
    Ok(deciding)
}

fn matches_nothing(graph: &LayerGraph) -> Box<ShardingFault> {
    let last = graph.num_layers() - 1;
    let names = [0, 1.min(last), last].map(|layer| graph.layer(layer).name.clone());
    Box::new(ShardingFault::MatchesNothing { names })
}

/// Marks the units whose every parameter is small enough to stay gathered, in chain order, passing over those that would
/// exceed the model's threshold: DeepSpeed's rule, by units, because a unit is what is gathered. A tied weight is one parameter: it counts once,
/// as the embedding, and both its units are alike.
fn mark_persistent(run: &Run, units: &mut [PlannedUnit]) {
    let mut num_elements = 0;
    let mut table = UnitSharding::Sharded;
    for unit in units {
        if unit.tying == Tying::Head {
            unit.sharding = table;
            continue;
        }
        let largest = unit.largest_parameter();
        let own = unit.unit.num_parameters() as u64;
        let fits = num_elements + own <= run.zero.model_persistence_threshold;
        if largest <= run.zero.param_persistence_threshold && fits {
            unit.sharding = UnitSharding::Persistent;
            num_elements += own;
            if unit.tying == Tying::Embedding {
                table = UnitSharding::Persistent;
            }
        }
    }
}
