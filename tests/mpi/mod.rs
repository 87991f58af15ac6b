//! Ranks that are processes, over the system's MPI: these tests start jobs of this program, in which each process runs the tests of
//! [`in_a_job`] and those of the collectives.

mod in_a_job;

use std::env;
use std::process::Command;

/// Runs the ignored tests of this program whose names begin so as a job of so many processes.
fn run_in_a_job(num_processes: usize, tests: &str) {
    let mut job = Command::new("mpirun");
    job.args(["-n", &num_processes.to_string()]);
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
    let output = job.output().expect("mpirun is there; scripts/mpi.sh installs it");
    let [printed, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{tests}: {}\n{printed}\n{errors}", output.status);
    assert!(!printed.contains("running 0 tests"), "there is no test {tests}");
    assert_eq!(printed.matches("test result: ok").count(), num_processes, "{printed}\n{errors}");
}

#[test]
fn what_every_backend_promises() {
    run_in_a_job(5, "collectives::mpi");
}

#[test]
fn grids_of_processes_give_the_bits_of_threads() {
    run_in_a_job(4, "mpi::in_a_job::grids");
}
