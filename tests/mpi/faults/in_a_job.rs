//! What each process of a job runs of which one rank fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

use pipezero::plan::{Plan, Purpose};
use pipezero::run::data::Zeros;
use pipezero::run::engine::{Engine, EngineError};
use pipezero::run::world::{Positions, ProcessWorld, World};
use rustix::process::{Pid, Signal, getpid, kill_process};
use tests::{EndOnPanic, Phase, example};

use super::fault::{Fault, Kind};

/// The fault.
pub(in crate::mpi) const FAULT: &str = "PIPEZERO_TEST_FAULT";
/// What a rank runs that fails by a command.
pub(in crate::mpi) const COMMAND: &str = "PIPEZERO_TEST_COMMAND";
/// The folder in which the processes write what they see.
pub(in crate::mpi) const FOLDER: &str = "PIPEZERO_TEST_FOLDER";
/// In it: when the rank failed; a file named by each rank, with its report and when it had it; and an empty file named by each rank that speaks.
pub(in crate::mpi) const FAILED_AT: &str = "failed";
pub(in crate::mpi) const SPEAKER: &str = "speaker";
/// In it, too: the process that is paused.
const PAUSED: &str = "paused";
/// Ranks of the job: pipeline 3 x data 2.
pub(in crate::mpi) const NUM_RANKS: usize = 6;
pub(in crate::mpi) const TIMEOUT_S: u64 = 3;
/// The step that is the first in which the rank may fail: others have then begun.
const FIRST_STEP: u64 = 2;
/// A rank that has not failed by then does not come to what it is to fail at.
const LAST_STEP: u64 = 400;

#[test]
#[ignore = "needs a job of six processes, one of which fails"]
fn one_rank_fails() {
    let _guard = EndOnPanic;
    let fault: Fault = env::var(FAULT).expect("a fault").parse().expect("a fault");
    let folder = PathBuf::from(env::var_os(FOLDER).expect("a folder"));
    let mut run = example(
        "timed-overlap.json",
        &[
            "comm.links=null",
            &format!("comm.timeout_s={TIMEOUT_S}"),
            "model.num_layers=6",
            "model.forward_ms=2",
            "model.backward_input_ms=1",
            "model.backward_weight_ms=1",
            // So that the optimizer takes a while, too.
            "model.parameters_per_layer=200000",
            "parallel.pipeline=3",
            "parallel.data=2",
            "zero_optimization.unit_layers=1",
            "zero_optimization.resident_units=1",
            "zero_optimization.prefetch_units=0",
            "gradient_accumulation_steps=4",
        ],
    );
    run.threads = 1;
    let plan = Plan::even_if_refused(run).expect("a valid run");
    let world = Arc::new(ProcessWorld::of_mpi(plan.run().comm.timeout, None).expect("a job"));
    let rank = world.local_ranks().start;
    let positions = Arc::clone(world.positions());
    if fault.kind == Kind::Pause && rank == (fault.rank + 1) % NUM_RANKS {
        let (world, folder) = (Arc::clone(&world), folder.clone());
        thread::spawn(move || thaw(&*world, &folder));
    }
    let mut engine = Engine::in_world(plan, Arc::new(Zeros), Purpose::Training, world).expect("ranks start");
    let fails = || fail(fault.kind, &folder);
    let error = loop {
        let report = match engine.train_batch() {
            Ok(report) => report,
            Err(error) => break error,
        };
        assert!(report.step < LAST_STEP, "rank {} does not come to {fault}", fault.rank);
        if report.step == FIRST_STEP - 1 && rank == fault.rank && fault.phase != Phase::Saving {
            let (positions, folder) = (Arc::clone(&positions), folder.clone());
            thread::spawn(move || fail_at(fault, &positions, &folder));
        }
        if fault.phase == Phase::Saving && report.step == FIRST_STEP {
            if rank == fault.rank {
                fails();
            }
            break engine.save(&folder.join("weights.safetensors")).expect_err("one rank is missing");
        }
    };
    let EngineError::Stopped(report) = error else { panic!("{error}") };
    if report.speaker() == Some(rank) {
        fs::write(folder.join(format!("{SPEAKER}{rank}")), "").expect("a folder");
    }
    // Whole as soon as it is there.
    let written = folder.join(format!("{rank}.part"));
    fs::write(&written, format!("{}\n{report}\n", now_ns())).expect("a report");
    fs::rename(written, folder.join(rank.to_string())).expect("a folder");
    // As the program says to `launch` with which status it ends.
    if let Some(statuses) = env::var_os("PIPEZERO_STATUSES") {
        fs::write(Path::new(&statuses).join(rank.to_string()), "1").expect("a status");
    }
}

/// Fails as soon as the rank is at what the fault says.
fn fail_at(fault: Fault, positions: &Positions, folder: &Path) {
    while !fault.phase.has(positions.get(fault.rank)) {
        std::hint::spin_loop();
    }
    fail(fault.kind, folder);
}

fn fail(kind: Kind, folder: &Path) {
    fs::write(folder.join(FAILED_AT), now_ns().to_string()).expect("a folder");
    fs::write(folder.join(PAUSED), getpid().as_raw_pid().to_string()).expect("a folder");
    let signal = match kind {
        Kind::Kill => Signal::KILL,
        Kind::Freeze | Kind::Pause => Signal::STOP,
        Kind::Command => {
            let command = env::var(COMMAND).expect("a command");
            assert!(
                Command::new("sh").args(["-c", &command]).status().expect("a shell").success(),
                "{command}"
            );
            return;
        }
    };
    kill_process(getpid(), signal).expect("a signal");
}

/// Lets the process that is paused go on once the others have stopped.
fn thaw(world: &dyn World, folder: &Path) {
    while !world.is_stopped() {
        thread::yield_now();
    }
    let paused = fs::read_to_string(folder.join(PAUSED)).expect("a process is paused");
    let paused = Pid::from_raw(paused.parse().expect("a number")).expect("a process");
    kill_process(paused, Signal::CONT).expect("a signal");
}

/// By the clock that all processes of the host share.
fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos()
}
