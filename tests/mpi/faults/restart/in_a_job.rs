//! What each process of a job runs that loses a rank and is started again: as `pipezero train --resume`, with a trap in which the rank is killed
//! the first time. The program itself has nothing by which it could be killed at a phase.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{env, fs};

use pipezero_comm::{CommError, Communicator};
use pipezero_config::Run;
use pipezero_plan::Plan;
use pipezero_run::world::{ProcessWorld, World, world_of};
use pipezero_train::{EvalLine, Observer, RunDir, StepLine, Training};
use rustix::process::{Signal, getpid, kill_process};
use tests::faults::{FAILED_AT, Fault, fault_and_folder};
use tests::{Altered, EndOnPanic, Moment, Trap, TrapCommunicator, example};

/// In the folder: the run directory, and the step of the checkpoint from which the run went on.
pub(super) const OUT: &str = "out";
pub(super) const RESUMED: &str = "resumed";
/// The step after which there is a checkpoint when the rank is killed, in the step before the next or while that is written.
pub(super) const CHECKPOINT: u64 = 2;
const NEXT_CHECKPOINT: u64 = 2 * CHECKPOINT;

/// A small GPT that learns, on pipeline 3 x data 2.
pub(super) fn run(backend: &str) -> Run {
    let mut run = example(
        "quickstart.json",
        &[
            "model.num_layers=6",
            "model.hidden_size=16",
            "model.num_attention_heads=2",
            "model.seq_length=32",
            "data.text=[\"../../README.md\"]",
            "evaluation=null",
            "parallel.pipeline=3",
            "train_batch_size=16",
            "scheduler.params.warmup_num_steps=2",
            "steps=6",
            &format!("checkpoint.every={CHECKPOINT}"),
            "checkpoint.background=false",
            "comm.timeout_s=20",
            &format!("comm.backend={backend}"),
        ],
    );
    run.threads = 1;
    run
}

struct Silent;

impl Observer for Silent {
    fn step(&mut self, _: &StepLine) {}

    fn evaluation(&mut self, _: &EvalLine) {}
}

#[test]
#[ignore = "needs a job of six processes, one of which is killed, and which is started again"]
fn one_rank_is_killed_and_the_job_goes_on() {
    let _guard = EndOnPanic;
    let (fault, folder) = fault_and_folder();
    let out = folder.join(OUT);
    let plan = Plan::even_if_refused(run("mpi")).expect("a valid run");
    let is_first_start = !folder.join(FAILED_AT).exists();
    let training = if is_first_start {
        let world = ProcessWorld::of_mpi(plan.run().comm.timeout, None).expect("a job");
        Training::in_world(plan, Arc::new(with_trap(world, fault, &folder)))
    } else {
        let world = world_of(&plan).expect("a job");
        Training::resuming(plan, world, &out, None, &mut |_| {})
    };
    let training = training.expect("ranks start");
    let directory = match training.writes() {
        true => RunDir::resume(&out).expect("a run directory"),
        false => RunDir::written_elsewhere(&out),
    };
    if let Some(resumed) = training.resumed().filter(|_| training.writes()) {
        fs::write(folder.join(RESUMED), resumed.step.to_string()).expect("a folder");
    }
    let done = training.run(&directory, &AtomicBool::new(false), &mut Silent);
    assert!(is_first_start == done.is_err(), "{fault}: {:?}", done.err());
    // As the program says to `launch` with which status it ends.
    let rank = env::var("OMPI_COMM_WORLD_RANK").expect("mpirun started this");
    let statuses = PathBuf::from(env::var_os("PIPEZERO_STATUSES").expect("launch started this"));
    fs::write(statuses.join(rank), u8::from(done.is_err()).to_string()).expect("a status");
}

/// The world with a trap for the rank.
fn with_trap(world: ProcessWorld, fault: Fault, folder: &Path) -> Altered {
    // A checkpoint has another name until it is whole.
    let partial = folder.join(OUT).join(format!("checkpoints/step-{NEXT_CHECKPOINT:08}.partial"));
    let failed = folder.join(FAILED_AT);
    let kill = move || {
        fs::write(&failed, fault.to_string()).expect("a folder");
        kill_process(getpid(), Signal::KILL).expect("a signal");
    };
    let moment = Moment { rank: fault.rank, phase: fault.phase, step: NEXT_CHECKPOINT };
    let trap = Trap::new(moment, move || partial.exists(), kill);
    trap.arm(world.positions());
    let alter = move |inner| -> Result<Box<dyn Communicator>, CommError> {
        Ok(Box::new(TrapCommunicator::new(inner, Arc::clone(&trap))))
    };
    Altered::new(Arc::new(world), alter, || {})
}
