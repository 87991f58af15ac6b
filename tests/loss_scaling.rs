//! fp16's loss scale through the engine: a step that overflows is as if it had not been, training goes on at a lower scale,
//! and a run that cannot go on fails with an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pipezero_config::{LossScaling, Precision, ReductionPolicy, ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_models::queue::Deferred;
use pipezero_models::{Device, Host};
use pipezero_run::data::{BatchSource, TokenBatch};
use pipezero_run::engine::{Engine, EngineError, StepReport};
use tests::{
    Case, Mask, Schedule, Weights, assert_same_weights, at_rate, plan_and_batches, small_run, started,
    weights_of, zero,
};

/// Dynamic, from a scale at which gradients overflow.
const HIGH: LossScaling = LossScaling {
    initial_scale: (1_u64 << 32) as f64,
    is_dynamic: true,
    window: 1000,
    hysteresis: 1,
    consecutive_hysteresis: false,
    min_scale: 1.0,
};

/// Every way in which gradients are kept and summed.
fn cases() -> [Case; 5] {
    let zero3 = zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1);
    let last = ZeroConfig { reduce: ReductionPolicy::Last, ..zero3.clone() };
    let interleaved = Schedule::Interleaved { virtual_stages: 2 };
    let base = Case { num_micro_batches: 3, ..Case::ONE_RANK };
    [
        base.clone(),
        Case { pipeline: 2, data: 2, zero: zero3.clone(), ..base },
        Case { pipeline: 2, data: 2, zero: last, tied: true, ..base },
        Case { pipeline: 2, schedule: interleaved, zero: zero3, tied: true, ..base },
        Case { data: 3, zero: zero(ZeroLevel::Zero1, ResidencyConfig::Strict, 0), ..base },
    ]
}

fn run(case: Case, scaling: LossScaling) -> Run {
    small_run(Case { precision: Precision::Fp16(scaling), ..case })
}

/// Trains on the first step's batch in every step, so that a run that skips steps sees what a run that does not sees.
fn engine(run: Run) -> Engine {
    let (plan, batches) = plan_and_batches(run, Mask::Uneven);
    let first = move |_: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
        batches.micro_batch(1, data_rank, micro_batch, batch)
    };
    Engine::new(plan, Arc::new(first)).expect("ranks start")
}

fn steps(engine: &mut Engine, number: usize) -> Vec<StepReport> {
    (0..number).map(|_| engine.train_batch().expect("a step")).collect()
}

/// Steps up to the first that does not overflow, which is the last of them.
fn until_it_fits(engine: &mut Engine) -> Vec<StepReport> {
    let mut reports = steps(engine, 1);
    while reports.last().expect("some").skipped {
        assert!(reports.len() < 40, "the scale never fits");
        reports.extend(steps(engine, 1));
    }
    reports
}

fn scales(reports: &[StepReport]) -> Vec<f64> {
    reports.iter().map(|report| report.loss_scale.expect("fp16 has a scale")).collect()
}

#[test]
fn steps_that_overflow_are_as_if_they_had_not_been() {
    for case in cases() {
        let mut overflowing = engine(run(case.clone(), HIGH));
        let initial = weights_of(&mut overflowing);
        let mut skipped = until_it_fits(&mut overflowing);
        let first = skipped.pop().expect("the last one fits");
        assert!(skipped.len() >= 3, "{} steps overflow in {case:?}", skipped.len());
        let mut updated = vec![first];
        updated.extend(steps(&mut overflowing, 5));

        let initial_scale = updated[0].loss_scale.expect("fp16 has a scale");
        let mut fitting = engine(run(case.clone(), LossScaling { initial_scale, ..HIGH }));
        assert_same_weights(&weights_of(&mut fitting), &initial, "the same beginning");
        let wanted = steps(&mut fitting, updated.len());
        for (report, wanted) in updated.iter().zip(&wanted) {
            assert_eq!(figures(report), figures(wanted), "{case:?}");
        }
        assert_same_weights(&weights_of(&mut overflowing), &weights_of(&mut fitting), &format!("{case:?}"));
        let made: Vec<&StepReport> = wanted.iter().filter(|report| !report.skipped).collect();
        assert!(made.len() >= 3 && made.is_sorted_by(|a, b| a.loss > b.loss), "it learns in {case:?}");
        // The rate of the first update is asked for until there is one.
        let rate = made[0].learning_rate;
        assert!(skipped.iter().all(|report| report.learning_rate == rate), "{case:?}");
        assert_ne!(made[2].learning_rate, rate, "rates change in {case:?}");
    }
}

/// What a report says of a step, to the bit.
fn figures(report: &StepReport) -> ([Option<u64>; 4], bool) {
    let numbers = [report.loss, report.loss_scale, Some(report.gradient_norm), Some(report.learning_rate)];
    (numbers.map(|number| number.map(f64::to_bits)), report.skipped)
}

#[test]
fn a_step_that_overflows_changes_no_weight() {
    for case in cases() {
        let mut engine = engine(run(case.clone(), HIGH));
        let initial: Weights = weights_of(&mut engine);
        assert!(steps(&mut engine, 1)[0].skipped);
        assert_same_weights(&weights_of(&mut engine), &initial, &format!("{case:?}"));
        until_it_fits(&mut engine);
        assert_ne!(weights_of(&mut engine), initial, "an update changes them");
    }
}

#[test]
fn the_scale_halves_once_the_hysteresis_is_used_up_and_doubles_after_a_window() {
    let scaling = LossScaling { hysteresis: 3, window: 4, ..HIGH };
    // Weights that hardly move have gradients that hardly move: what fits once fits again, and twice as much does not.
    let mut engine = engine(at_rate(1e-9, run(Case::ONE_RANK, scaling)));
    let reports = until_it_fits(&mut engine);
    let num_halvings = reports.len() - 3;
    let halved = (1..=num_halvings as i32).map(|times| HIGH.initial_scale / 2.0_f64.powi(times));
    let wanted: Vec<f64> = [HIGH.initial_scale; 3].into_iter().chain(halved).collect();
    assert_eq!(scales(&reports), wanted);
    // Four steps behind the first one that fits, then twice the scale, at which the next step overflows again.
    let last = wanted[wanted.len() - 1];
    let later = steps(&mut engine, 6);
    assert_eq!(scales(&later), [last, last, last, last, 2.0 * last, 2.0 * last]);
    let skipped: Vec<bool> = later.iter().map(|report| report.skipped).collect();
    assert_eq!(skipped, [false, false, false, false, true, true], "the window has restored the hysteresis");
}

#[test]
fn a_static_scale_skips_what_overflows_and_stays() {
    let mut engine = engine(run(Case::ONE_RANK, LossScaling { is_dynamic: false, ..HIGH }));
    let initial = weights_of(&mut engine);
    let reports = steps(&mut engine, 3);
    assert!(reports.iter().all(|report| report.skipped));
    assert_eq!(scales(&reports), [HIGH.initial_scale; 3]);
    assert_same_weights(&weights_of(&mut engine), &initial, "a static scale");
}

#[test]
fn an_overflow_at_the_least_scale_ends_the_run() {
    for case in cases() {
        let min_scale = HIGH.initial_scale / 4.0;
        let mut engine = engine(run(case, LossScaling { min_scale, ..HIGH }));
        assert_eq!(scales(&steps(&mut engine, 2)), [HIGH.initial_scale, HIGH.initial_scale / 2.0]);
        let error = engine.train_batch().expect_err("there is no lower scale");
        let EngineError::LossScale { step: 3, scale } = error else { panic!("{error}") };
        assert_eq!(scale, min_scale);
    }
}

/// What a step left in gradient buffers is never read by the next one: neither infinities, nor what an evaluation or a load finds
/// there. The second device fills with NaN what nobody may read.
#[test]
fn after_an_overflow_that_ends_a_run_a_step_without_targets_has_no_gradient() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    let devices: [Arc<dyn Device>; 2] = [Arc::new(Host), Arc::new(Deferred::new(3))];
    for (case, device) in
        cases().into_iter().flat_map(|case| devices.clone().map(|device| (case.clone(), device)))
    {
        let (plan, batches) =
            plan_and_batches(run(case.clone(), LossScaling { min_scale: 1e9, ..HIGH }), Mask::Uneven);
        let has_targets = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&has_targets);
        let source: Arc<dyn BatchSource> =
            Arc::new(move |_: u64, data_rank: usize, micro_batch: usize, batch: &mut TokenBatch| {
                batches.micro_batch(1, data_rank, micro_batch, batch)?;
                if !flag.load(Ordering::Relaxed) {
                    batch.targets.fill(IGNORED_TARGET);
                }
                Ok(())
            });
        let mut engine = Engine::on_device(plan, Arc::clone(&source), device).expect("ranks start");
        let initial = weights_of(&mut engine);
        let ends = (0..40).any(|_| matches!(engine.train_batch(), Err(EngineError::LossScale { .. })));
        assert!(ends, "the least scale overflows in {case:?}");
        engine.eval_batch(&source, 1).expect("an evaluation");
        engine.save(&path).expect("weights are saved");
        engine.load(&path).expect("weights are loaded");
        has_targets.store(false, Ordering::Relaxed);
        let report = engine.train_batch().expect("a step without targets");
        assert_eq!((report.loss, report.gradient_norm), (None, 0.0), "{case:?}");
        assert_same_weights(&weights_of(&mut engine), &initial, &format!("{case:?}"));
    }
}

/// Only fp16 takes what is not finite for an overflow; elsewhere it is the end. In fp16 it is the end too, once the scale
/// is at its least.
#[test]
fn a_run_that_diverges_ends_in_every_precision() {
    let scaling = LossScaling { initial_scale: 4.0, ..HIGH };
    for precision in [Precision::F32, Precision::Bf16, Precision::Fp16(scaling)] {
        let run = at_rate(1e30, small_run(Case { pipeline: 2, precision, ..Case::ONE_RANK }));
        let mut engine = started(Engine::new, run, Mask::None);
        let error = (0..5).find_map(|_| engine.train_batch().err()).expect("nothing is finite any more");
        match (precision, error) {
            (Precision::Fp16(_), EngineError::LossScale { scale, .. }) => assert_eq!(scale, 1.0),
            (Precision::F32 | Precision::Bf16, EngineError::NotFinite { .. }) => {}
            (precision, error) => panic!("{precision:?}: {error}"),
        }
    }
}
