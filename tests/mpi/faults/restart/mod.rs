//! A rank that is killed at each phase of a run and in each stage: the job is started again from its last whole checkpoint, and ends with the
//! weights of a run that nothing disturbed, to the bit.

mod in_a_job;

use std::ffi::OsString;
use std::path::Path;
use std::{env, fs};

use pipezero_launch::{ConnectedBy, End, Event, Job, Lost};
use pipezero_plan::Plan;
use pipezero_train::RunDir;
use tests::faults::{FAILED_AT, FAULT, FOLDER, Fault, Kind, NUM_RANKS, RANKS};
use tests::{Phase, Sample, train_into};

use in_a_job::{CHECKPOINT, OUT, RESUMED, run};

#[test]
fn a_job_that_loses_a_rank_at_any_phase_ends_as_if_it_had_not() {
    let _one_at_a_time = crate::mpi::one_job();
    let folder = tempfile::tempdir().expect("a folder");
    let plan = Plan::even_if_refused(run("threads")).expect("a valid run");
    let (undisturbed, ..) = train_into(&folder.path().join(OUT), plan);
    let expected = weights_in(undisturbed.path());
    let mut sample = Sample::one_in(5, "rank that is killed in a job that is started again");
    for (phase, _) in Phase::ALL {
        for rank in RANKS {
            if sample.takes_next() {
                let fault = Fault { phase, kind: Kind::Kill, rank };
                assert!(restarted(fault) == expected, "{fault}: other weights");
                println!("{fault}: started again after step {CHECKPOINT}, and the same weights");
            }
        }
    }
    assert_eq!(sample.num_cases(), 15);
}

fn weights_in(directory: &Path) -> Vec<u8> {
    fs::read(directory.join(RunDir::WEIGHTS)).expect("weights")
}

/// The weights of a job that loses a rank and is started again.
fn restarted(fault: Fault) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let (end, events) = started(fault, folder.path());
    assert_eq!(end, End::Done, "{fault}: {events:?}");
    let failed: Vec<usize> = (0..NUM_RANKS).filter(|&rank| rank != fault.rank).collect();
    let lost = Lost { killed: vec![fault.rank], failed, ended: Vec::new() };
    let expected = Event::Restarting { restart: 1, max_restarts: 1, lost };
    assert_eq!(
        events,
        [expected],
        "{fault}: it was started again once, and who was left had ended by itself"
    );
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert_eq!(read(FAILED_AT), fault.to_string(), "the rank was killed at the phase");
    assert_eq!(read(RESUMED), CHECKPOINT.to_string(), "{fault}: it went on from the last whole checkpoint");
    weights_in(&folder.path().join(OUT))
}

fn started(fault: Fault, folder: &Path) -> (End, Vec<Event>) {
    let this = env::current_exe().expect("a test is a program");
    let setting = |name: &str, value: &str| OsString::from(format!("{name}={value}"));
    let run = "exec \"$0\" mpi::faults::restart::in_a_job --ignored --test-threads=1 --nocapture";
    let mut arguments =
        vec![setting(FAULT, &fault.to_string()), setting(FOLDER, folder.to_str().expect("a name in UTF-8"))];
    arguments.extend(["sh", "-c", run].map(OsString::from));
    // What is started again has to resume, as the processes do.
    arguments.extend([this.into_os_string(), "--resume".into()]);
    let job = Job {
        num_processes: NUM_RANKS,
        connected_by: ConnectedBy::Mpi,
        max_restarts: 1,
        program: "env".into(),
        arguments,
    };
    let mut events = Vec::new();
    let end = job.run(&|| 0, &mut |event| events.push(event)).expect("mpirun is there");
    (end, events)
}
