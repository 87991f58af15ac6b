//! State goes from a GPU to the host and back without a change, and is as large as planned.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_config::{DeviceName, Run};
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints};
use pipezero_run::engine::{AboutRun, Engine, InitialState};
use pipezero_run::world::world_of;
use tests::{Mask, Sample, grids, plan_and_batches, two_steps};

/// The file that each rank writes, by name.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_ranks = entries.filter(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    let mut files: Vec<_> =
        of_ranks.map(|path| (path.file_name().unwrap().into(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// An engine on the device that its run names, with this state.
fn engine(run: &Run, device: DeviceName, state: &InitialState) -> Engine {
    let (plan, source) = plan_and_batches(Run { device, ..run.clone() }, Mask::Uneven);
    let world = world_of(&plan).expect("a GPU, or the fake GPU");
    Engine::with_state(plan, source, world, state).expect("ranks start")
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn checkpoints_go_between_host_and_device_and_memory_is_as_planned() {
    let mut sample = Sample::one_in(3, "checkpoint between host and GPU");
    for case in grids().into_iter().filter(|_| sample.takes_next()) {
        let run = two_steps(case.clone());
        for [first, second] in [[DeviceName::Cuda, DeviceName::Cpu], [DeviceName::Cpu, DeviceName::Cuda]] {
            let home = tempfile::tempdir().unwrap();
            let [written, again] =
                ["written", "again"].map(|name| Checkpoints::of_run(&home.path().join(name)));
            let mut before = engine(&run, first, &InitialState::Drawn);
            before.train_batch().expect("a step");
            for (rank, planned) in before.plan().forecast().iter().enumerate() {
                assert_eq!(
                    before.ledger(rank).peaks(),
                    planned.memory,
                    "rank {rank} on {first:?} of {case:?}"
                );
            }
            before.write_checkpoint(&written, &AboutRun::default()).expect("a checkpoint");
            let state = Arc::new(CheckpointReader::open(&written.at(1)).unwrap());
            let mut after = engine(&run, second, &InitialState::Checkpoint(state));
            after.write_checkpoint(&again, &AboutRun::default()).expect("a checkpoint");
            assert!(files(&written.at(1)) == files(&again.at(1)), "{first:?} to {second:?} of {case:?}");
            after.train_batch().expect("it goes on");
        }
    }
}
