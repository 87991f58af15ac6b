//! What becomes of each parameter: sharded, persistent or whole, trained or frozen.

use std::collections::BTreeMap;

use pipezero_config::{ShardingRule, UnitSharding, ZeroLevel};
use serde::Serialize;

use super::{Plan, PlannedPart};

/// A parameter of the model; a table that is cut into slices is one, and so are both uses of a tied weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedParameter {
    /// Its name, as files of weights have it.
    pub name: String,
    /// The pipeline rank that has it; of slices on several ranks the first, of a tied weight that of the embedding.
    pub pipeline_rank: usize,
    /// Its elements.
    pub elements: u64,
}

/// The parameters of which the same becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParameterKind {
    /// `sharded`, `persistent` or `whole`, as the list of a run file says it; below ZeRO-3 and on one data rank `whole`.
    pub becomes: &'static str,
    /// Whether they are trained; else they are frozen.
    pub is_trained: bool,
    /// Their elements.
    pub elements: u64,
    /// Bytes of their weights as they compute, before sharding.
    pub bytes: u64,
    /// The parameters, in the order of the model.
    pub parameters: Vec<PlannedParameter>,
}

impl Plan {
    /// What becomes of all parameters: the kinds that occur, what is trained first.
    pub fn parameter_kinds(&self) -> Vec<ParameterKind> {
        let mut kinds: BTreeMap<(bool, usize), Vec<PlannedParameter>> = BTreeMap::new();
        for (_, unit) in self.owned_units() {
            let pipeline_rank = self.pipeline_rank_of(unit.stage).index();
            for entry in unit.unit.entries() {
                let PlannedPart { sharding, is_frozen, .. } = unit.parts[entry.part];
                let kind = self.becomes(sharding) as usize;
                let of_kind = kinds.entry((is_frozen, kind)).or_default();
                let elements = entry.range.len() as u64;
                match of_kind.iter_mut().find(|known| entry.spec.is_slice() && known.name == entry.spec.name)
                {
                    Some(known) => known.elements += elements,
                    None => of_kind.push(PlannedParameter {
                        name: entry.spec.name.clone(),
                        pipeline_rank,
                        elements,
                    }),
                }
            }
        }
        let element_bytes = self.element_type().num_bytes() as u64;
        let of_kind = |((is_frozen, kind), parameters): ((bool, usize), Vec<PlannedParameter>)| {
            let elements = parameters.iter().map(|of| of.elements).sum();
            ParameterKind {
                becomes: ShardingRule::word(UnitSharding::ALL[kind]),
                is_trained: !is_frozen,
                elements,
                bytes: elements * element_bytes,
                parameters,
            }
        };
        kinds.into_iter().map(of_kind).collect()
    }

    /// What becomes of what is marked so; only ZeRO-3 reads the mark.
    fn becomes(&self, marked: UnitSharding) -> UnitSharding {
        let shards = self.run.zero.level == ZeroLevel::Zero3 && self.grid.data_degree > 1;
        if shards { marked } else { UnitSharding::Whole }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{GPT2, plan};

    /// `[becomes, trained, parameters, elements]` of each kind.
    fn kinds(set: &str) -> Vec<(&'static str, bool, usize, u64)> {
        let plan = plan(GPT2, set);
        let kinds = plan.parameter_kinds();
        let elements: u64 = kinds.iter().map(|kind| kind.elements).sum();
        assert_eq!(elements, plan.num_parameters());
        let bytes: u64 = kinds.iter().map(|kind| kind.bytes).sum();
        assert_eq!(bytes, 4 * plan.num_parameters());
        let of_kind = kinds.iter().map(|kind| {
            let each: u64 = kind.parameters.iter().map(|of| of.elements).sum();
            assert_eq!(each, kind.elements);
            (kind.becomes, kind.is_trained, kind.parameters.len(), kind.elements)
        });
        of_kind.collect()
    }

    #[test]
    fn every_parameter_is_of_one_kind() {
        let whole = kinds("zero_optimization.stage=1");
        let [("whole", true, num_parameters, num_elements)] = whole[..] else { panic!("{whole:?}") };
        let all = kinds("zero_optimization.stage=3");
        assert_eq!(all, [("sharded", true, num_parameters, num_elements)]);
        let head = 256 * 32;
        let listed = r#"zero_optimization={"stage":3,"parameters":["whole:^lm_head[.]","persistent:bias$"]}"#;
        let found = kinds(listed);
        let [("sharded", true, ..), ("persistent", true, num_biases, _), ("whole", true, 1, of_head)] =
            found[..]
        else {
            panic!("{found:?}")
        };
        assert!(of_head == head && num_biases > 4, "{found:?}");
        let frozen = kinds(r#"train_only=["lm_head"]"#);
        assert_eq!(frozen.iter().filter(|kind| kind.1).map(|kind| kind.3).sum::<u64>(), head);
        assert_eq!(frozen.iter().filter(|kind| !kind.1).map(|kind| kind.3).sum::<u64>(), num_elements - head);
    }
}
