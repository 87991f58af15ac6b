//! Which parameters are trained: those that a pattern of `train_only` matches, or whose layer it does; all others are frozen.

use pipezero_config::Run;
use pipezero_models::Model;
use pipezero_models::parameter::ParameterSpec;
use pipezero_partition::{LayerNode, Tying};

use super::diagnostics::Diagnostic;
use super::names::find_all;
use super::unmatched_names::UnmatchedNames;
use super::{Plan, PlanError, PlannedUnit};

pub(super) const TRAIN_ONLY: &str = "train_only";

impl Plan {
    /// Number of parameters of the model that are not trained, a tied weight counted once.
    pub fn num_frozen_parameters(&self) -> u64 {
        let entries = self.owned_units().flat_map(|(_, unit)| unit.frozen_entries());
        entries.map(|entry| entry.range.len() as u64).sum()
    }

    /// That a tied weight which is trained leaves nothing in front of what is trained.
    pub(super) fn tied_weight_is_in_front(&self) -> Option<Diagnostic> {
        let is_trained_table = |unit: &&PlannedUnit| unit.tying == Tying::Embedding && !unit.is_frozen;
        let is_first = self.units.first().as_ref().is_some_and(is_trained_table);
        let behind = self.units.iter().skip_while(is_trained_table).take_while(|unit| unit.is_frozen);
        let num_layers: usize = behind.map(|unit| unit.layers.len()).sum();
        let text = format!(
            "the tied weight of the head is trained, which is the embedding too, so the {num_layers} frozen layers behind that have a backward and keep \
             what it reads; with neither of its two uses in the list they would not"
        );
        (is_first && num_layers > 0).then(|| Diagnostic::hint(&[TRAIN_ONLY], text))
    }
}

/// Marks what is not trained.
///
/// # Errors
/// [`PlanError::TrainOnly`] where patterns match nothing, [`PlanError::NothingTrained`] where what they match has no parameters.
pub(super) fn mark(run: &Run, model: &Model, layers: &mut [LayerNode]) -> Result<(), PlanError> {
    let Some(patterns) = &run.train_only else { return Ok(()) };
    let parameters: Vec<Vec<ParameterSpec>> =
        model.layers.iter().map(|layer| layer.layer.parameters()).collect();
    let mut trained: Vec<Vec<bool>> = parameters.iter().map(|of| vec![false; of.len()]).collect();
    let regexes = patterns.iter().map(|pattern| Some(pattern.regex()));
    let unused = find_all(regexes, layers.iter(), &parameters, |_, layer, found| {
        trained[layer].iter_mut().zip(found).for_each(|(is_trained, is_found)| *is_trained |= is_found);
    });
    if !unused.is_empty() {
        return Err(PlanError::TrainOnly(Box::new(UnmatchedNames::of(patterns, unused, &*layers))));
    }
    make_tables_alike(layers, &mut trained);
    if !trained.iter().flatten().any(|&is_trained| is_trained) {
        let patterns = patterns.iter().map(|pattern| format!("\"{pattern}\"")).collect::<Vec<_>>();
        return Err(PlanError::NothingTrained { patterns: patterns.join(", ") });
    }
    let mut is_frozen = true;
    for (layer, trained) in layers.iter_mut().zip(trained) {
        // A layer without parameters ends no unit: it is as the one before it.
        if !trained.is_empty() {
            is_frozen = !trained.contains(&true);
        }
        layer.is_frozen = is_frozen;
        if !is_frozen {
            layer.frozen_parameters = (0..trained.len()).filter(|&parameter| !trained[parameter]).collect();
        }
    }
    Ok(())
}

/// The slices of a table are trained all or none, and so are both uses of a tied weight: one that is matched means all.
fn make_tables_alike(layers: &[LayerNode], trained: &mut [Vec<bool>]) {
    let are_one = |one: &LayerNode, other: &LayerNode| {
        let are_tied = one.tying != Tying::Untied && other.tying != Tying::Untied;
        let are_slices = one.is_slice && other.is_slice && one.role == other.role;
        are_tied || are_slices
    };
    for layer in 0..layers.len() {
        for other in 0..layers.len() {
            if other != layer && are_one(&layers[layer], &layers[other]) {
                for parameter in 0..trained[layer].len().min(trained[other].len()) {
                    trained[layer][parameter] |= trained[other][parameter];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use expect_test::expect;
    use pipezero_models::layer::*;
    use pipezero_models::{Layer, Queue};

    use super::*;
    use crate::testing::{GPT2, plan};
    use pipezero_config::{Resources, RunFile};

    fn refusal(file: &str, list: &str) -> String {
        let file = RunFile::parse("run.json", file).unwrap().set(&[format!("train_only={list}")]).unwrap();
        Plan::from_file(&file, Resources::this_host()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_pattern_that_cannot_be_followed_is_refused_at_its_key() {
        expect![[r#"--set train_only=["lm_head","h[.]9"]: `train_only[1]` is "h[.]9", but no layer and no parameter has a name like that: layers are embedding, h.0.attn, ..., lm_head, and `plan --parameters` lists the parameters; match at least one, or remove the entry"#]]
        .assert_eq(&refusal(GPT2, r#"["lm_head","h[.]9"]"#));
        // Layers of one's own may have no parameters.
        let mut plan = plan(GPT2, r#"train_only=["ln_f"]"#);
        let mut layers: Vec<LayerNode> = plan.graph().layers().cloned().collect();
        let norm = layers.iter().position(|of| of.name == "ln_f").unwrap();
        plan.model.layers[norm].layer = Arc::new(Bare);
        expect![[r#"`train_only` is ["ln_f"], but it matches only layers without parameters, so nothing would be trained; match a layer that has parameters"#]].assert_eq(&mark(plan.run(), &plan.model, &mut layers).unwrap_err().to_string());
    }

    /// A layer without parameters, as far as a plan looks at it.
    #[derive(Debug)]
    struct Bare;

    impl Layer for Bare {
        fn name(&self) -> &str {
            "ln_f"
        }

        fn parameters(&self) -> Vec<ParameterSpec> {
            Vec::new()
        }

        fn sizes(&self, _: MicroBatchShape) -> LayerSizes {
            LayerSizes::default()
        }

        fn forward_flops(&self, _: MicroBatchShape) -> u64 {
            0
        }

        fn forward(&self, _: &dyn Queue, _: MicroBatchShape, _: ForwardArgs<'_>) {}

        fn recompute(&self, _: &dyn Queue, _: MicroBatchShape, _: RecomputeArgs<'_>) {}

        fn backward_input(&self, _: &dyn Queue, _: MicroBatchShape, _: BackwardInputArgs<'_>) {}

        fn backward_weight(&self, _: &dyn Queue, _: MicroBatchShape, _: BackwardWeightArgs<'_>) {}
    }

    #[test]
    fn parameters_are_trained_or_frozen() {
        let head = plan(GPT2, r#"train_only=["lm_head"]"#);
        assert_eq!(head.num_parameters() - head.num_frozen_parameters(), 256 * 32);
        let trained = head.units().iter().filter(|unit| !unit.is_frozen).map(|unit| unit.layers.len());
        assert_eq!(trained.collect::<Vec<_>>(), [1]);
        // The vectors of 8 blocks and of the last norm: 2 norms, 4 biases, 13 widths in all.
        let vectors = plan(GPT2, r#"train_only=["bias","ln_"]"#);
        assert_eq!(vectors.num_parameters() - vectors.num_frozen_parameters(), 8 * 13 * 32 + 2 * 32);
        let all = plan(GPT2, "");
        // In front of what is trained there is no backward, two thirds of the work, and behind it a frozen layer has no weight gradient, a third; 4
        // micro-batches on 2 data ranks.
        let flops = |unit: &PlannedUnit| u128::from(unit.forward_flops) * 4 * 2;
        assert_eq!(head.step_flops(), all.step_flops() / 3 + 2 * flops(head.units().last().unwrap()));
        let first = plan(GPT2, r#"train_only=["^embedding","h[.]0"]"#);
        assert_eq!(first.step_flops(), 2 * all.step_flops() / 3 + flops(&first.units()[0]));
    }
}
