//! What happened in real steps: recorded on every kind of grid, it is what the program says, and recording changes nothing.

use pipezero_config::{ResidencyConfig, ZeroConfig, ZeroLevel};
use pipezero_measure::compare::{Comparison, Prediction, observed_costs};
use pipezero_measure::recording::Recording;
use pipezero_run::engine::Engine;
use pipezero_schedule::simulate::simulate;
use pipezero_schedule::{Lane, PipelineRank};
use tests::{Case, Mask, NO_ZERO, Schedule, small_run, started, zero};

/// Grids, schedules, levels, tied weights on one rank and on two.
fn cases() -> Vec<Case> {
    let zero_3: ZeroConfig = zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1);
    let zero_1 = zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0);
    let mut cases = Vec::new();
    for (pipeline, data) in [(1, 1), (1, 2), (2, 2), (4, 1)] {
        for (zero, tied) in [(zero_3.clone(), true), (zero_1.clone(), false), (NO_ZERO, true)] {
            let schedule = if pipeline == 4 { Schedule::GPipe } else { Schedule::OneFOneB };
            let num_layers = 2 * pipeline.max(3);
            cases.push(Case {
                pipeline,
                data,
                num_micro_batches: 3,
                schedule,
                zero,
                tied,
                num_layers,
                ..Case::ONE_RANK
            });
        }
    }
    cases
}

/// Reading what was recorded holds it against every rule: each instruction once, one at a time, nothing before what it waits
/// for, on no rank.
#[test]
fn a_real_step_is_one_that_its_program_can_have_gone_through() {
    let mut num_messages = 0;
    for case in cases() {
        let mut engine = started(Engine::recording, small_run(case.clone()), Mask::None);
        for step in 1..=2 {
            let report = engine.train_batch().expect("a step");
            let plan = engine.plan();
            let recorded =
                Recording::new(plan, &report).unwrap_or_else(|fault| panic!("{fault} in {case:?}"));
            assert_eq!(recorded.step(), step);
            let again = Recording::from_json(plan, &recorded.to_json()).expect("a file of the run");
            assert_eq!(again.to_json(), recorded.to_json(), "{case:?}");
            for rank in 0..plan.grid().world_size() {
                let row = plan.training().row(PipelineRank(plan.grid().pipeline_rank(rank) as u32));
                assert_eq!(again.row_times(rank), recorded.row_times(rank), "{case:?}");
                num_messages += row.iter().filter(|instruction| instruction.lane() != Lane::Compute).count();
            }
        }
    }
    assert!(num_messages > 1000, "only {num_messages} messages were recorded");
}

/// One step of several is recorded, and neither it nor the others come out otherwise.
#[test]
fn recording_changes_no_bit_and_stays_with_its_step() {
    for case in cases() {
        let [mut plain, mut traced] =
            [(); 2].map(|()| started(Engine::new, small_run(case.clone()), Mask::None));
        for step in 1..=3 {
            let expected = plain.train_batch().expect("a step");
            let found = if step == 2 { traced.train_batch_recorded() } else { traced.train_batch() };
            let found = found.expect("a step");
            assert_eq!(found.loss.map(f64::to_bits), expected.loss.map(f64::to_bits), "{case:?}");
            assert_eq!(found.gradient_norm.to_bits(), expected.gradient_norm.to_bits(), "{case:?}");
            assert_eq!(found.traffic(), expected.traffic());
            for rank in 0..traced.plan().grid().world_size() {
                assert_eq!(!found.events(rank).is_empty(), step == 2, "step {step}, rank {rank}");
            }
            assert_eq!(Recording::new(traced.plan(), &found).is_ok(), step == 2);
        }
    }
}

/// Whatever the machine did meanwhile: the accounts of a comparison are closed, and costs read off a step are a prediction.
#[test]
fn a_comparison_of_a_real_step_accounts_for_all_of_it() {
    for case in cases() {
        let mut engine = started(Engine::recording, small_run(case.clone()), Mask::None);
        let reports = [(); 3].map(|()| engine.train_batch().expect("a step"));
        let plan = engine.plan();
        let steps: Vec<Recording<'_>> =
            reports.iter().map(|report| Recording::new(plan, report).expect("a recorded step")).collect();
        let peaks: Vec<u64> = reports[2].measured().iter().map(|rank| rank.memory.peak).collect();
        let prediction = Prediction::from_steps(plan, &steps).expect("a step takes no centuries");
        let played = simulate(plan.training(), &observed_costs(plan, &steps)).expect("costs of this program");
        assert_eq!(prediction.timeline, played);
        let found = Comparison::new(&steps, &prediction, &peaks);
        assert_eq!(found.steps, [1, 2, 3]);
        assert!(found.steps.contains(&found.median_step));
        assert_eq!(found.program.predicted_ns, played.makespan());
        for rank in &found.ranks {
            let measured: u64 = rank.bubble.0.iter().map(|cause| cause.measured_ns).sum();
            assert_eq!(rank.busy.measured_ns + measured, found.program.measured_ns, "{case:?}");
            let predicted: u64 = rank.bubble.0.iter().map(|cause| cause.predicted_ns).sum();
            assert_eq!(rank.busy.predicted_ns + predicted, found.program.predicted_ns, "{case:?}");
            assert_eq!(rank.peak.predicted_bytes, rank.peak.measured_bytes);
        }
        assert!(found.partings.len() == 10 && found.path_parts >= 10, "{case:?}");
    }
}
