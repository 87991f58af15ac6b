//! Which layers are trained: those that a pattern of `train_only` matches; all others are frozen.

use pipezero_partition::{LayerNode, Tying};

use super::train_only_fault::TrainOnlyFault;
use super::{Plan, PlanError};
use crate::config::{LayerPattern, Run};

pub(super) const TRAIN_ONLY: &[&str] = &["train_only"];

impl Plan {
    /// Number of parameters of the model that are not trained, a tied weight counted once.
    pub fn num_frozen_parameters(&self) -> u64 {
        let frozen = self.owned_units().filter(|(_, unit)| unit.is_frozen);
        frozen.map(|(_, unit)| unit.unit.num_parameters() as u64).sum()
    }
}

/// Marks the layers that are not trained.
///
/// # Errors
/// [`PlanError::TrainOnly`] where a pattern matches no layer, or nothing is left to be trained.
pub(super) fn mark(run: &Run, layers: &mut [LayerNode]) -> Result<(), PlanError> {
    let Some(patterns) = &run.train_only else { return Ok(()) };
    layers.iter_mut().for_each(|layer| layer.is_frozen = true);
    for pattern in patterns {
        let regex = pattern.regex();
        let mut matched =
            layers.iter_mut().filter(|layer| names_of(layer).any(|name| regex.is_match(name))).peekable();
        if matched.peek().is_none() {
            return Err(refused(pattern, matches_nothing(layers)));
        }
        matched.for_each(|layer| layer.is_frozen = false);
    }
    make_tables_alike(layers);
    let is_trained = |layer: &LayerNode| !layer.is_frozen && layer.num_parameters > 0;
    match patterns.last() {
        Some(last) if !layers.iter().any(is_trained) => Err(refused(last, TrainOnlyFault::NothingTrained)),
        _ => Ok(()),
    }
}

/// A layer's name, and of a slice of the vocabulary's table also that of the whole table, so that a list does not depend on how
/// tables are cut.
pub(super) fn names_of(layer: &LayerNode) -> impl Iterator<Item = &str> {
    let table = layer.name.rsplit_once('.').filter(|_| layer.is_slice).map(|(table, _)| table);
    [layer.name.as_str()].into_iter().chain(table)
}

/// The slices of a table are trained all or none, and so are both uses of a tied weight: one that is matched means all.
fn make_tables_alike(layers: &mut [LayerNode]) {
    let are_one = |one: &LayerNode, other: &LayerNode| {
        let are_tied = one.tying != Tying::Untied && other.tying != Tying::Untied;
        let are_slices = one.is_slice && other.is_slice && one.role == other.role;
        are_tied || are_slices
    };
    for at in 0..layers.len() {
        if layers[at].is_frozen {
            let layer = layers[at].clone();
            layers[at].is_frozen = !layers.iter().any(|other| !other.is_frozen && are_one(&layer, other));
        }
    }
}

fn refused(pattern: &LayerPattern, fault: TrainOnlyFault) -> PlanError {
    PlanError::TrainOnly { pattern: pattern.to_string(), fault: Box::new(fault) }
}

fn matches_nothing(layers: &[LayerNode]) -> TrainOnlyFault {
    let last = layers.len() - 1;
    let names = [0, 1.min(last), last].map(|layer| layers[layer].name.clone());
    TrainOnlyFault::MatchesNothing { names }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::config::{Launch, RunFile};
    use crate::plan::costs::tests::{GPT2, plan};

    fn refusal(file: &str, list: &str) -> String {
        let file = RunFile::parse("run.json", file).unwrap().set(&[format!("train_only={list}")]).unwrap();
        Plan::from_file(&file, Launch::this_host()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_pattern_that_cannot_be_followed_is_refused_at_its_key() {
        expect![[r#"--set train_only=["lm_head","h[.]9"]: `train_only` is "h[.]9", but no layer has a name like that: they are embedding, h.0.attn, ..., lm_head; match at least one, or remove the entry"#]]
        .assert_eq(&refusal(GPT2, r#"["lm_head","h[.]9"]"#));
        // Layers of one's own may have no parameters.
        let plan = plan(GPT2, r#"train_only=["ln_f"]"#);
        let mut layers: Vec<LayerNode> = plan.graph().layers().cloned().collect();
        layers.iter_mut().filter(|of| of.name == "ln_f").for_each(|of| of.num_parameters = 0);
        expect![[r#"`train_only` has "ln_f", but the layers that it matches have no parameters, so nothing would be trained; match a layer that has parameters"#]].assert_eq(&mark(plan.run(), &mut layers).unwrap_err().to_string());
    }

    #[test]
    fn parameters_are_trained_or_frozen() {
        let head = plan(GPT2, r#"train_only=["lm_head"]"#);
        assert_eq!(head.num_parameters() - head.num_frozen_parameters(), 256 * 32);
        let trained = head.units().iter().filter(|unit| !unit.is_frozen).map(|unit| unit.layers.len());
        assert_eq!(trained.collect::<Vec<_>>(), [1]);
        let all = plan(GPT2, "");
        // A frozen layer has no weight gradient, a third of its work; 4 micro-batches on 2 data ranks.
        let head_flops = u128::from(head.units().last().unwrap().forward_flops) * 4 * 2;
        assert_eq!(head.step_flops(), 2 * all.step_flops() / 3 + head_flops);
    }
}
