//! A device whose kernels run later than they are asked for, in a random order that only events bound, gives the bits of the host. An
//! event that is left out is found. What is recorded there is when queues came to instructions, not when the host asked for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipezero_config::{ResidencyConfig, ZeroLevel};
use pipezero_measure::recording::Recording;
use pipezero_models::Device;
use pipezero_models::queue::Deferred;
use pipezero_plan::Plan;
use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, StepReport};
use pipezero_run::executor::EventKind;
use pipezero_schedule::{Lane, PipelineRank};
use tests::{
    Case, EncoderBatches, Lengths, Mask, Outputs, RandomBatches, Sample, Schedule, Trained,
    assert_bit_identical, assert_same_weights, grids, in_full, plan_and_batches, plan_with_encoder, started,
    train, train_on, train_plan_on, train_with, two_steps, weights_in, zero,
};

/// Orders that each case is run in.
const SEEDS: u64 = 20;

#[test]
fn every_order_that_events_allow_gives_the_bits_of_the_host() {
    let mut sample = Sample::one_in(5, "order of a device's queues, to the bits of the host");
    for (number, case) in grids().into_iter().enumerate() {
        let seeds: Vec<u64> = (0..SEEDS).filter(|_| sample.takes_next()).collect();
        let plan = Plan::even_if_refused(two_steps(case.clone())).expect("a valid run");
        let lengths = [Lengths::Longest, Lengths::Drawn][number % 2];
        let batches = RandomBatches::for_plan(&plan, Mask::Uneven).with_lengths(lengths);
        let source: Arc<dyn BatchSource> = Arc::new(batches);
        let host = train_with(plan.clone(), Arc::clone(&source), |_| {});
        for seed in seeds {
            let device = Arc::new(Deferred::new(seed)) as Arc<dyn Device>;
            let deferred = train_plan_on(&[device], plan.clone(), Arc::clone(&source));
            let deferred = deferred.expect("it trains as the host does");
            assert_bit_identical(&deferred, &host, &format!("seed {seed} of {case:?}"));
        }
    }
}

/// An input encoder launches other kernels for each micro-batch.
#[test]
fn an_encoder_gives_the_bits_of_the_host_in_every_order() {
    let strict = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    for schedule in [Schedule::OneFOneB, Schedule::ZbH1] {
        let case = Case {
            pipeline: 2,
            data: 2,
            num_micro_batches: 4,
            schedule,
            zero: strict.clone(),
            ..Case::ONE_RANK
        };
        let plan = plan_with_encoder(two_steps(case));
        let tokens = RandomBatches::for_plan(&plan, Mask::None).with_lengths(Lengths::Drawn);
        let source = EncoderBatches::new(&plan, tokens, 3).shared();
        let host = train_with(plan.clone(), Arc::clone(&source), |_| {});
        for seed in 0..SEEDS / 4 {
            let device = Arc::new(Deferred::new(seed)) as Arc<dyn Device>;
            let deferred = train_plan_on(&[device], plan.clone(), Arc::clone(&source));
            let deferred = deferred.expect("it trains as the host does");
            assert_bit_identical(&deferred, &host, &format!("seed {seed} of {schedule:?}"));
        }
    }
}

/// Recorded steps, evaluations, logits and saving too.
#[test]
fn whatever_an_engine_is_asked_a_device_gives_what_the_host_gives() {
    let mut sample = Sample::one_in(8, "order of a device's queues, all that an engine is asked");
    for case in grids() {
        let (plan, source) = plan_and_batches(two_steps(case.clone()), Mask::Uneven);
        let home = tempfile::tempdir().expect("a temporary folder");
        let files = ["host", "device"].map(|name| home.path().join(name));
        let engine = Engine::new(plan.clone(), Arc::clone(&source)).expect("ranks start");
        let host = Outputs::of(engine, &source, &files[0]);
        for seed in 0..SEEDS {
            if sample.takes_next() {
                let device = Arc::new(Deferred::new(seed));
                let engine =
                    Engine::on_device(plan.clone(), Arc::clone(&source), device).expect("ranks start");
                let name = format!("seed {seed} of {case:?}");
                assert_eq!(Outputs::of(engine, &source, &files[1]).bits(), host.bits(), "{name}");
                assert_same_weights(&weights_in(&files[1]), &weights_in(&files[0]), &name);
            }
        }
    }
}

/// Whether a run without some event fails, or gives other bits than the host.
fn is_found(device: Deferred, case: Case, host: &Trained) -> bool {
    match train_on(Arc::new(device), two_steps(case), Mask::Uneven) {
        Err(_) => true,
        Ok(other) => {
            let bits = |trained: &Trained| {
                let losses = trained.losses.iter().chain(&trained.norms).map(|value| value.to_bits());
                let weights = trained.weights.values().flatten().map(|value| u64::from(value.to_bits()));
                losses.chain(weights).collect::<Vec<_>>()
            };
            bits(&other) != bits(host)
        }
    }
}

/// In the gate, until a case and a seed have found it; in full, in every case and on all seeds, and how many have is printed.
#[test]
fn every_event_that_is_left_out_is_found() {
    let mut found: BTreeMap<&str, bool> = BTreeMap::new();
    for case in grids() {
        let all = Deferred::new(0);
        train_on(Arc::new(all.clone()), two_steps(case.clone()), Mask::Uneven).expect("it trains");
        let host = train(two_steps(case.clone()), Mask::Uneven);
        for what in all.waited_for() {
            let is_known = found.entry(what).or_default();
            if *is_known && !in_full() {
                continue;
            }
            let is_found = |seed: &u64| is_found(Deferred::without(*seed, what), case.clone(), &host);
            if in_full() {
                let num_found = (0..SEEDS).filter(is_found).count();
                println!("event | {what} | {num_found} of {SEEDS} | {case:?}");
                *is_known |= num_found > 0;
            } else {
                *is_known = (0..SEEDS).any(|seed| is_found(&seed));
            }
        }
    }
    let missed: Vec<_> = found.iter().filter(|(_, is_found)| !**is_found).map(|(what, _)| what).collect();
    assert!(missed.is_empty(), "left out and never found: {missed:?}");
    assert!(found.len() >= 8, "{found:?}");
}

/// The time between two events of an instruction, over all instructions of all ranks for which this holds.
fn time_between(
    engine: &Engine,
    report: &StepReport,
    [from, to]: [EventKind; 2],
    counts: impl Fn(Lane) -> bool,
) -> f64 {
    let plan = engine.plan();
    let of_rank = |rank: usize| {
        let row = plan.training().row(PipelineRank(plan.grid().pipeline_rank(rank) as u32));
        let mut awaited = BTreeMap::new();
        let mut sum_ns = 0;
        for event in report.events(rank).iter().filter(|event| counts(row[event.index].lane())) {
            if event.kind == from {
                awaited.insert(event.index, event.at_ns);
            } else if event.kind == to {
                sum_ns += awaited.get(&event.index).map_or(0, |from_ns| event.at_ns - from_ns);
            }
        }
        sum_ns
    };
    let sum_ns: u64 = (0..plan.grid().world_size()).map(of_rank).sum();
    sum_ns as f64 / 1e9 / plan.grid().world_size() as f64
}

/// Idle times are those between the marks that the recording has too, and none is longer than the step.
fn assert_idle_times_are_recorded(engine: &Engine, report: &StepReport, case: &str) {
    use EventKind::{Arrived, Awaited, Ended};
    let is_bulk = |lane| matches!(lane, Lane::Gather | Lane::Reduce);
    let exposed_s = time_between(engine, report, [Awaited, Arrived], is_bulk);
    let messages_s = time_between(engine, report, [Awaited, Arrived], |lane| lane != Lane::Compute);
    let joint_s = time_between(engine, report, [Awaited, Ended], |lane| lane == Lane::Compute);
    // Sums of a few nanoseconds in seconds: rounding is far below a nanosecond.
    let rounding_s = 1e-12;
    assert!((report.exposed_comm_s - exposed_s).abs() < rounding_s, "{case}");
    assert!(messages_s <= report.idle_s + rounding_s, "{case}");
    assert!(report.idle_s <= messages_s + joint_s + rounding_s, "{case}");
    assert!(report.exposed_comm_s <= report.idle_s && report.idle_s <= report.step_s, "{case}");
    assert!(joint_s > 0.0 && report.idle_s > 0.0, "{case}");
}

#[test]
fn in_every_order_what_is_recorded_is_a_step_of_the_program() {
    let mut sample = Sample::one_in(5, "order of a device's queues, recorded and checked");
    for case in grids() {
        for seed in (0..SEEDS).filter(|_| sample.takes_next()).collect::<Vec<_>>() {
            let on_device = |plan, source| Engine::on_device(plan, source, Arc::new(Deferred::new(seed)));
            let mut engine = started(on_device, two_steps(case.clone()), Mask::Uneven);
            let case = format!("seed {seed} of {case:?}");
            for step in 1..=2 {
                let report = engine.train_batch_recorded().expect("a step");
                let recording = Recording::new(engine.plan(), &report);
                let recording = recording.unwrap_or_else(|fault| panic!("{fault} in {case}"));
                assert_eq!(recording.step(), step);
                assert_idle_times_are_recorded(&engine, &report, &case);
            }
        }
    }
}
