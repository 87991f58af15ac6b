//! What each process of a job does whose ranks have a GPU each, connected by NCCL (`tests/cuda/nccl_processes.rs` starts such jobs).

use std::collections::HashMap;
use std::env;
use std::sync::Arc;

use pipezero_models::Device;
use pipezero_models::queue::{Cuda, F32Products};
use pipezero_run::engine::Engine;
use pipezero_run::world::world_of;
use tests::features::pairs_on;
use tests::{
    Case, EndOnPanic, Mask, Outputs, Sample, grids, in_full, plan_and_batches, two_steps, weights_in,
};

use super::nccl::over_nccl;
use super::training::on_gpus;

/// The number of processes, as torchrun says it.
fn num_processes() -> usize {
    env::var("WORLD_SIZE").expect("a job").parse().expect("a number")
}

#[test]
#[ignore = "needs a job of processes that have a GPU each, or a fake GPU each"]
fn grids_give_the_bits_of_one_pipeline_rank_and_send_what_is_planned() {
    let _guard = EndOnPanic;
    let home = tempfile::tempdir().expect("a temporary folder");
    let mut references = HashMap::new();
    let mut sample =
        Sample::one_in(4, "grid of processes that NCCL connects, to the bits of one pipeline rank");
    let num_processes = num_processes();
    // Each takes seconds on the fake GPU.
    let pairs = pairs_on(num_processes..=num_processes).into_iter().step_by(20);
    let pairs = pairs.filter(|_| in_full());
    let fits = |case: &Case| case.pipeline * case.data == num_processes;
    let cases = grids().into_iter().filter(fits).chain(pairs);
    let cases: Vec<Case> = cases.filter(|_| sample.takes_next()).collect();
    assert!(!cases.is_empty(), "no grid has so many ranks");
    for case in cases {
        let (plan, source) = plan_and_batches(over_nccl(on_gpus(two_steps(case.clone()))), Mask::Uneven);
        let world = world_of(&plan).expect("a job");
        let rank = world.local_ranks().start;
        let [one, many] = ["one", "many"].map(|name| home.path().join(name));
        let forecast = plan.forecast().to_vec();
        let batches = Arc::clone(&source);
        let mut engine = Engine::in_world(plan, batches, world).expect("ranks start");
        let found = Outputs::of_borrowed(&mut engine, &source, &many);
        assert_eq!(engine.ledger(rank).peaks(), forecast[rank].memory, "rank {rank} of {case:?}");
        for step in &found.steps {
            let own = if rank == 0 { 0..num_processes } else { rank..rank + 1 };
            let planned: Vec<_> = forecast[own].iter().map(|rank| rank.traffic).collect();
            assert_eq!(step.traffic(), planned, "rank {rank} of {case:?}");
        }
        // The process of rank 0 has the weights, and there is one reference for all.
        if rank > 0 {
            continue;
        }
        let reference = case.clone().reference();
        let expected = references.entry(format!("{reference:?}")).or_insert_with(|| {
            let gpu = Arc::new(Cuda::open(0, F32Products::Whole).expect("a GPU")) as Arc<dyn Device>;
            let (plan, source) = plan_and_batches(on_gpus(two_steps(reference)), Mask::Uneven);
            let engine = Engine::on_device(plan, Arc::clone(&source), gpu).expect("ranks start");
            (Outputs::of(engine, &source, &one), weights_in(&one))
        });
        assert_eq!(found.bits(), expected.0.bits(), "{case:?}");
        assert_eq!(weights_in(&many), expected.1, "{case:?}");
    }
}
