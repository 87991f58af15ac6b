//! A step in which no target carries loss has nothing to learn from: it is skipped, and training goes on after it.

use std::sync::Arc;

use pipezero_config::{ReductionPolicy, ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, StepReport};
use tests::{Case, Mask, RandomBatches, Weights, assert_same_weights, small_run, weights_of, zero};

/// The step whose targets are all ignored.
const SKIPPED_STEP: u64 = 2;

/// Three steps: their reports, and the weights after each.
fn train(run: Run) -> Vec<(StepReport, Weights)> {
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let source = RandomBatches::for_plan(&plan, Mask::None).edited(|step, _, batch| {
        if step == SKIPPED_STEP {
            batch.targets.fill(IGNORED_TARGET);
        }
        Ok(())
    });
    let mut engine = Engine::new(plan, Arc::new(source)).expect("ranks start");
    let step = |_| {
        let report = engine.train_batch().expect("a step");
        (report, weights_of(&mut engine))
    };
    (0..3).map(step).collect()
}

fn run(pipeline: usize, level: ZeroLevel, reduce: ReductionPolicy) -> Run {
    let zero = ZeroConfig { reduce, ..zero(level, ResidencyConfig::Units(2), 1) };
    small_run(Case { pipeline, data: 2, tied: true, zero, ..Case::ONE_RANK })
}

#[test]
fn the_step_is_skipped_and_training_goes_on() {
    use ReductionPolicy::{Every, Last};
    for (pipeline, level, reduce) in [
        (1, ZeroLevel::Zero0, Last),
        (2, ZeroLevel::Zero1, Last),
        (1, ZeroLevel::Zero2, Every),
        (4, ZeroLevel::Zero3, Every),
        (2, ZeroLevel::Zero3, Last),
    ] {
        let case = format!("{level:?} on {pipeline} pipeline ranks");
        let steps = train(run(pipeline, level, reduce));
        let [(first, before), (skipped, after), (last, end)] = &steps[..] else { panic!("three steps") };
        assert!(!first.skipped && first.loss.is_some(), "{case}");
        assert!(skipped.skipped, "{case}");
        assert_eq!((skipped.loss, skipped.num_targets, skipped.gradient_norm), (None, 0, 0.0), "{case}");
        assert_same_weights(after, before, &case);
        assert!(!last.skipped && last.loss.is_some(), "{case}");
        let changed = end.iter().filter(|(name, values)| after[*name] != **values).count();
        assert_eq!(changed, end.len(), "parameters that learn after the skipped step, {case}");
        assert!(end.values().flatten().all(|value| value.is_finite()), "{case}");
    }
}

#[test]
fn the_step_is_skipped_alike_on_every_grid() {
    let wanted = train(run(1, ZeroLevel::Zero2, ReductionPolicy::Every));
    for pipeline in [2, 4] {
        let steps = train(run(pipeline, ZeroLevel::Zero3, ReductionPolicy::Every));
        for ((report, weights), (wanted_report, wanted)) in steps.iter().zip(&wanted) {
            let case = format!("step {} on {pipeline} pipeline ranks", report.step);
            assert_eq!(report.loss.map(f64::to_bits), wanted_report.loss.map(f64::to_bits), "{case}");
            assert_same_weights(weights, wanted, &case);
        }
    }
}
