//! Ranks that are processes, over the system's MPI: these tests start jobs of this program, in which each process runs the tests of
//! [`in_a_job`] and those of the collectives.

mod faults; // A rank that is killed or frozen.
mod hosts; // Jobs across hosts, links that are cut, and slow ones.
mod in_a_job; // What each process of a job runs.

use std::env;
use std::fs;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Jobs have more processes than this host has cores, so that two at once would only be late.
fn one_job() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job of so many processes, in which each runs the ignored tests of this program whose names begin so.
fn job(num_processes: usize, options: &[&str], tests: &str) -> Command {
    let mut job = Command::new("mpirun");
    job.args(["-n", &num_processes.to_string()]).args(options);
    // As root, on fewer cores than processes, in containers that forbid to read another process's memory.
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
    ] {
        job.env(name, value);
    }
    job.arg(env::current_exe().expect("a test is a program"));
    job.args([tests, "--ignored", "--test-threads=1", "--nocapture"]);
    job
}

/// Runs a job in which no test fails.
fn run_in_a_job(num_processes: usize, tests: &str) {
    let _one_at_a_time = one_job();
    let output = job(num_processes, &[], tests).output().expect("mpirun is there; engine/mpi.sh installs it");
    let [printed, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{tests}: {}\n{printed}\n{errors}", output.status);
    assert!(!printed.contains("running 0 tests"), "there is no test {tests}");
    assert_eq!(printed.matches("test result: ok").count(), num_processes, "{printed}\n{errors}");
    // Each process has drawn the same cases.
    printed.lines().find(|line| line.starts_with("sample |")).iter().for_each(|line| println!("{line}"));
}

#[test]
fn what_every_backend_promises() {
    run_in_a_job(5, "collectives::mpi");
}

#[test]
fn grids_of_processes_give_the_bits_of_threads() {
    run_in_a_job(4, "mpi::in_a_job::grids");
}

/// Read by other engines of the same processes, and by threads.
#[test]
fn checkpoints_of_several_engines_of_a_job_belong_together() {
    let _one_at_a_time = one_job();
    let folder = tempfile::tempdir().expect("a folder");
    let mut job = job(4, &[], "mpi::in_a_job::joint");
    let output = job.env(in_a_job::FOLDER, folder.path()).output().expect("mpirun is there");
    let [printed, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}\n{printed}\n{errors}", output.status);
    assert_eq!(printed.matches("test result: ok. 1 passed").count(), 4, "{printed}\n{errors}");
}

/// Whichever rank it is, that of rank 0 with the connections between the others too: one process speaks, and names it first.
#[test]
fn a_rank_that_is_killed_is_named_in_one_report() {
    let _one_at_a_time = one_job();
    for killed in [0, 1, 3] {
        let folder = tempfile::tempdir().expect("a folder");
        // So that Open MPI lets the others live.
        let mut job = job(4, &["--enable-recovery"], "mpi::in_a_job::killed_rank");
        job.env(in_a_job::KILLED, killed.to_string()).env(in_a_job::REPORTS, folder.path());
        let output = job.output().expect("mpirun is there");
        let report_of = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let errors = String::from_utf8_lossy(&output.stderr);
        for rank in (0..4).filter(|&rank| rank != killed) {
            let report = report_of(&rank.to_string());
            let [_, cause, others @ ..] = &report.lines().collect::<Vec<_>>()[..] else {
                panic!("rank {rank} has no report: {errors}")
            };
            assert!(cause.starts_with(&format!("  rank {killed}, last heard of at ")), "{report}");
            assert!(cause.ends_with(": does not answer: its process has ended"), "{report}");
            assert_eq!(others.len(), 3, "{report}");
            assert!(others.iter().all(|line| line.contains(": stopped ")), "{report}");
        }
        let lowest = usize::from(killed == 0);
        assert_eq!(report_of(in_a_job::SPEAKER), report_of(&lowest.to_string()));
    }
}
