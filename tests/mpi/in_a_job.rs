//! What each process of a job runs.

use std::sync::Arc;
use std::time::Duration;

use pipezero::models::Host;
use pipezero::plan::Purpose;
use pipezero::run::engine::Engine;
use pipezero::run::world::{MpiWorld, World};
use tests::features::{self, CHECKPOINTING, DATA, GRIDS, PRECISIONS, TIED, UNITS, VOCABULARIES, ZERO};
use tests::{EndOnPanic, Mask, Outputs, Sample, pairwise, plan_and_batches, two_steps, weights_in};

const SIZES: [usize; 8] = [
    GRIDS.len(),
    ZERO.len(),
    UNITS.len(),
    PRECISIONS.len(),
    CHECKPOINTING.len(),
    TIED.len(),
    DATA.len(),
    VOCABULARIES.len(),
];

/// Ranks of the job, of which smaller grids use the first ones.
const NUM_PROCESSES: usize = 4;

#[test]
#[ignore = "needs a job of four processes"]
fn grids_of_processes_give_the_bits_losses_and_traffic_of_threads() {
    let _guard = EndOnPanic;
    let mut sample = Sample::one_in(2, "pair of features on 2 to 4 processes, to the bits of threads");
    let (mut num_cases, home) = (0, tempfile::tempdir().expect("a temporary folder"));
    for choice in pairwise(SIZES) {
        let case = features::case_of(choice);
        let (plan, source) = plan_and_batches(two_steps(case.clone()), Mask::Uneven);
        let num_ranks = plan.grid().world_size();
        if !(2..=NUM_PROCESSES).contains(&num_ranks) || !sample.takes_next() {
            continue;
        }
        num_cases += 1;
        let Some(world) = MpiWorld::of_first(num_ranks, Duration::from_secs(60)).expect("a job") else {
            continue;
        };
        let rank = world.local_ranks().start;
        let [one, many] = ["one", "many"].map(|name| home.path().join(name));
        let batches = Arc::clone(&source);
        let engine = Engine::in_world(plan.clone(), batches, Purpose::Training, Arc::new(world));
        let found = Outputs::of(engine.expect("ranks start"), &source, &many);
        let engine = Engine::on_device(plan, Arc::clone(&source), Arc::new(Host)).expect("ranks start");
        let expected = Outputs::of(engine, &source, &one);
        assert_eq!(found.bits(), expected.bits(), "{case:?}");
        // The process of rank 0 has the reports of all, the others their own.
        let own = if rank == 0 { 0..num_ranks } else { rank..rank + 1 };
        for (found, expected) in found.steps.iter().zip(&expected.steps) {
            assert_eq!(found.traffic(), expected.traffic()[own.clone()], "{case:?}");
        }
        if rank == 0 {
            assert_eq!(weights_in(&many), weights_in(&one), "{case:?}");
        }
    }
    assert!(num_cases > 0, "some grids have two to four ranks");
    println!("{num_cases} cases");
}
