//! What each process of a job does of which one rank fails, whose ranks have a GPU each, connected by NCCL (`tests/cuda/nccl_faults.rs` starts such jobs).

use std::sync::Arc;
use std::time::Duration;

use pipezero_config::{CommConfig, ResidencyConfig, Run, ZeroLevel};
use pipezero_run::engine::{Engine, EngineError};
use pipezero_run::world::world_of;
use rustix::process::{Signal, getpid, kill_process};
use tests::faults::{Kind, TIMEOUT_S, error_of, fault_and_folder, write_report};
use tests::{Case, EndOnPanic, Mask, plan_and_batches, zero};

use super::nccl::over_nccl;
use super::nccl_schedules::smallest;
use super::training::on_gpus;

/// Two blocks to a stage, so that each stage gathers for its backwards.
fn run() -> Run {
    let case = Case {
        pipeline: 3,
        data: 2,
        num_micro_batches: 4,
        num_layers: 6,
        zero: zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 0),
        ..Case::ONE_RANK
    };
    let run = over_nccl(on_gpus(smallest(case)));
    Run { comm: CommConfig { timeout: Duration::from_secs(TIMEOUT_S), ..run.comm }, ..run }
}

#[test]
#[ignore = "needs a job of six processes with a fake GPU each, one of which fails"]
fn one_rank_fails() {
    let _guard = EndOnPanic;
    let (fault, folder) = fault_and_folder();
    let (plan, source) = plan_and_batches(run(), Mask::None);
    let world = world_of(&plan).expect("a job");
    let rank = world.local_ranks().start;
    let positions = Arc::clone(world.positions());
    let mut engine = Engine::in_world(plan, source, world).expect("ranks start");
    // The fake NCCL looks for the file that says when the rank has failed, and does the rest.
    let fails = move || match fault.kind {
        Kind::Nccl | Kind::Freeze => {}
        Kind::Kill => kill_process(getpid(), Signal::KILL).expect("a signal"),
        Kind::Pause | Kind::Command => panic!("no such fault is tried here"),
    };
    let error = error_of(&mut engine, &positions, rank, fault, &folder, fails);
    let EngineError::Stopped(report) = error else { panic!("{fault}: {error}") };
    write_report(&folder, rank, &report);
    assert!(matches!(engine.train_batch(), Err(EngineError::AlreadyStopped)));
}
