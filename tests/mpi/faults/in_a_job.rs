//! What each process of a job runs of which one rank fails.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::{env, fs, thread};

use pipezero_plan::Plan;
use pipezero_run::data::Zeros;
use pipezero_run::engine::{Engine, EngineError};
use pipezero_run::world::{ProcessWorld, World};
use rustix::process::{Pid, Signal, getpid, kill_process};
use tests::faults::{Kind, NUM_RANKS, TIMEOUT_S, error_of, fault_and_folder, write_report};
use tests::{EndOnPanic, example};

/// What a rank runs that fails by a command.
pub(in crate::mpi) const COMMAND: &str = "PIPEZERO_TEST_COMMAND";
/// In the folder: the process that is paused.
const PAUSED: &str = "paused";

#[test]
#[ignore = "needs a job of six processes, one of which fails"]
fn one_rank_fails() {
    let _guard = EndOnPanic;
    let (fault, folder) = fault_and_folder();
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
    let mut engine = Engine::in_world(plan, Arc::new(Zeros), world).expect("ranks start");
    let at = folder.clone();
    let fails = move || fail(fault.kind, &at);
    let error = error_of(&mut engine, &positions, rank, fault, &folder, fails);
    let EngineError::Stopped(report) = error else { panic!("{error}") };
    write_report(&folder, rank, &report);
    // As the program says to `launch` with which status it ends.
    if let Some(statuses) = env::var_os("PIPEZERO_STATUSES") {
        fs::write(Path::new(&statuses).join(rank.to_string()), "1").expect("a status");
    }
}

fn fail(kind: Kind, folder: &Path) {
    fs::write(folder.join(PAUSED), getpid().as_raw_pid().to_string()).expect("a folder");
    let signal = match kind {
        Kind::Kill => Signal::KILL,
        Kind::Freeze | Kind::Pause => Signal::STOP,
        Kind::Nccl => panic!("these ranks do not use NCCL"),
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
