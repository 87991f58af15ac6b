//! What becomes of each parameter under ZeRO-3: what the run's list of names says, and which are small enough to persist. So units have
//! parts.

use std::collections::HashMap;

use pipezero_config::{Run, ShardingConfig, ShardingRule, ZeroLevel, pattern};
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::unit::ParameterEntry;
use pipezero_partition::{LayerGraph, Tying, UnitSharding};

use super::names::find_all;
use super::unit::{PlannedUnit, Reduced};
use super::unmatched_names::UnmatchedNames;
use super::{Plan, PlanError};

impl Plan {
    /// Whether ZeRO-3 has weights to gather.
    pub fn shards_parameters(&self) -> bool {
        self.run.zero.level == ZeroLevel::Zero3 && self.units.iter().any(PlannedUnit::is_sharded)
    }

    /// Number of parameters of the model of which that becomes under ZeRO-3, a tied weight counted once.
    pub fn num_parameters_of_kind(&self, kind: UnitSharding) -> u64 {
        let entries = self.owned_units().flat_map(|(_, unit)| unit.entries_of_kind(kind));
        entries.map(|entry| entry.range.len() as u64).sum()
    }

    /// What ZeRO-3 is in effect, where no unit is gathered for its uses.
    pub fn in_effect(&self) -> Option<InEffect> {
        let zero = &self.run.zero;
        if zero.level != ZeroLevel::Zero3 || self.shards_parameters() {
            return None;
        }
        let of = |reduced| {
            let entries = self.owned_units().flat_map(move |(_, unit)| {
                unit.unit
                    .entries()
                    .iter()
                    .filter(move |entry| unit.parts[entry.part].reduced(zero) == reduced)
            });
            entries.map(|entry| entry.range.len() as u64).sum::<u64>()
        };
        Some(match [of(Reduced::Every), of(Reduced::Last)] {
            [0, _] => InEffect::Zero1,
            [_, 0] => InEffect::Zero2,
            [num_sharded, _] => InEffect::Between { num_sharded },
        })
    }
}

/// What ZeRO-3 is in effect where it shards no weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InEffect {
    /// Optimizer state alone is sharded.
    Zero1,
    /// Gradients are sharded too.
    Zero2,
    /// Gradients of some parameters are.
    Between {
        /// These parameters.
        num_sharded: u64,
    },
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
/// weight, which at the head is also called as an untied one would be.
pub(super) fn deciding_rules(
    rules: &[ShardingRule],
    graph: &LayerGraph,
    units: &[PlannedUnit],
) -> Result<Vec<Vec<Option<usize>>>, PlanError> {
    let layers = units.iter().flat_map(|unit| unit.unit.layers());
    let parameters: Vec<Vec<ParameterSpec>> = layers.map(|layer| layer.parameters()).collect();
    let mut deciding: Vec<Vec<Option<usize>>> = parameters.iter().map(|of| vec![None; of.len()]).collect();
    // One that is no expression is refused where the file is read.
    let regexes = rules.iter().map(|rule| pattern::regex(&rule.pattern).ok());
    let unused = find_all(regexes, graph.layers(), &parameters, |rule, layer, found| {
        let decided = deciding[layer].iter_mut().zip(found).filter(|(_, is_found)| *is_found);
        decided.for_each(|(decided, _)| *decided = Some(rule));
    });
    if !unused.is_empty() {
        return Err(PlanError::ShardingRules(Box::new(UnmatchedNames::of(rules, unused, graph.layers()))));
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

#[cfg(test)]
mod tests {
    use pipezero_partition::UnitSharding;

    use crate::testing::{GPT2, plan};

    /// As it is that of an untied head, so that a list does not depend on whether the head is tied.
    #[test]
    fn a_tied_weight_has_the_name_of_an_untied_head_too() {
        for slices in ["1", "2"] {
            let whole = |tied: bool, pattern: &str| {
                let list = format!(r#"zero_optimization.parameters=["whole:{pattern}"]"#);
                let slices = format!("zero_optimization.vocabulary_slices={slices}");
                let plan =
                    plan(GPT2, &format!("model.vocab_size=2048 model.tie_embeddings={tied} {slices} {list}"));
                plan.num_parameters_of_kind(UnitSharding::Whole)
            };
            let table = 2048 * 32;
            for pattern in ["^lm_head[.]weight$", "^wte[.]weight$", "^lm_head$", "^wte"] {
                assert_eq!(whole(true, pattern), table, "{pattern} in {slices}");
            }
            assert_eq!(whole(false, "^lm_head[.]weight$"), table);
        }
    }
}
