//! Ranks with a GPU each, connected by NCCL, train to the bits of ranks that share one.

use std::collections::HashMap;
use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_config::{
    BackendName, CommConfig, Precision, ReductionOrder, ResidencyConfig, Run, ZeroConfig, ZeroLevel,
};
use pipezero_models::queue::Cuda;
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, EngineError};
use tests::{
    Case, Lengths, Mask, RandomBatches, Sample, assert_bit_identical, grids, plan_and_batches, started,
    train, train_on_devices, train_plan_on, train_with, two_steps, zero,
};

use super::devices;
use super::training::on_gpus;

pub(super) fn over_nccl(run: Run) -> Run {
    Run { comm: CommConfig { backend: BackendName::Nccl, ..run.comm }, ..run }
}

#[test]
#[ignore = "needs several GPUs, or fake GPUs"]
fn every_grid_gives_the_bits_of_one_pipeline_rank() {
    let (devices, num_devices) = (devices(), Cuda::num_devices().expect("GPUs"));
    let mut references = HashMap::new();
    let mut sample = Sample::one_in(3, "grid on GPUs that NCCL connects, to the bits of one pipeline rank");
    let fits = |case: &Case| case.pipeline * case.data <= num_devices;
    for case in grids().into_iter().filter(fits).filter(|_| sample.takes_next()) {
        let name = format!("{case:?}");
        let trained = train(over_nccl(on_gpus(two_steps(case.clone()))), Mask::Uneven);
        let reference = case.reference();
        let reference = references.entry(format!("{reference:?}")).or_insert_with(|| {
            train_on_devices(&devices[..1], on_gpus(two_steps(reference)), Mask::Uneven).expect("it trains")
        });
        assert_bit_identical(&trained, reference, &name);
    }
}

/// Messages are as long as their micro-batches.
#[test]
#[ignore = "needs several GPUs, or fake GPUs"]
fn micro_batches_of_different_lengths_give_the_bits_of_one_pipeline_rank() {
    let devices = devices();
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 4, ..Case::ONE_RANK };
    let run = on_gpus(two_steps(case.clone()));
    let [trained, reference] = [over_nccl(run), on_gpus(two_steps(case.reference()))]
        .map(|run| {
            let plan = Plan::even_if_refused(run).expect("a valid run");
            let batches = RandomBatches::for_plan(&plan, Mask::None).with_lengths(Lengths::Drawn);
            (plan, Arc::new(batches))
        })
        .map(|(plan, source)| match plan.run().comm.backend {
            BackendName::Nccl => train_with(plan, source, |_| {}),
            _ => train_plan_on(&devices[..1], plan, source).expect("it trains"),
        });
    assert_bit_identical(&trained, &reference, "different lengths over NCCL");
}

/// Sums in another order differ in their last bits from three terms on: `a + b` is `b + a`.
#[test]
#[ignore = "needs several GPUs, or fake GPUs"]
fn the_library_s_order_of_sums_is_close_and_its_own() {
    let by = |order, data| {
        let case = Case { data, num_micro_batches: 2, ..Case::ONE_RANK };
        let run = over_nccl(on_gpus(two_steps(case)));
        let comm = CommConfig { reduction: order, ..run.comm };
        train(Run { comm, ..run }, Mask::Uneven)
    };
    for data in [2, 4] {
        let [ordered, library] =
            [ReductionOrder::Ordered, ReductionOrder::Library].map(|order| by(order, data));
        for (one, other) in
            ordered.losses.iter().chain(&ordered.norms).zip(library.losses.iter().chain(&library.norms))
        {
            assert!((one - other).abs() <= 1e-5 * one.abs(), "{one} and {other} with {data} data ranks");
        }
        let is_same = ordered.weights == library.weights;
        assert_eq!(is_same, data < 3, "{data} data ranks");
    }
}

/// `FAKE_GPU_NCCL_WINDOWS` stops the process where one lands elsewhere.
#[test]
#[ignore = "needs several GPUs, or fake GPUs"]
fn gathers_of_units_land_in_memory_of_the_library() {
    two_steps_of(zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1));
}

#[test]
#[ignore = "needs several GPUs, or fake GPUs"]
fn gathers_after_a_step_land_in_parameters() {
    two_steps_of(zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0));
}

fn two_steps_of(zero: ZeroConfig) {
    let grid = Case { pipeline: 2, data: 2, ..Case::ONE_RANK };
    let case = Case { zero, precision: Precision::Bf16, tied: true, ..grid };
    let mut engine = started(Engine::new, over_nccl(on_gpus(two_steps(case))), Mask::None);
    for _ in 0..2 {
        engine.train_batch().expect("a step");
    }
}

/// `FAKE_GPU_NCCL_FAIL_AT` says which operation never begins; another rank then waits in vain for as long as it may.
#[test]
#[ignore = "needs several fake GPUs"]
fn an_operation_that_fails_ends_the_run_in_time_with_what_nccl_says() {
    if env::var_os("FAKE_GPU_NCCL_FAIL_AT").is_none() {
        return;
    }
    let timeout = Duration::from_secs(3);
    let run = over_nccl(on_gpus(two_steps(Case { pipeline: 2, data: 2, ..Case::ONE_RANK })));
    let comm = CommConfig { timeout, ..run.comm };
    let (plan, source) = plan_and_batches(Run { comm, ..run }, Mask::None);
    let start = Instant::now();
    let trains = || -> Result<(), EngineError> {
        let mut engine = Engine::new(plan, source)?;
        (0..2).try_for_each(|_| engine.train_batch().map(drop))
    };
    let error = trains().expect_err("an operation of the run fails").to_string();
    assert!(error.contains("remote process exited or there was a network error"), "{error}");
    assert!(start.elapsed() < timeout + Duration::from_secs(5), "{:?}: {error}", start.elapsed());
    assert!(!error.contains("does not answer"), "{error}");
}
