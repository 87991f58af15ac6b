//! `doctor` where each rank is a process of `mpirun`.

use std::process::{Command, Stdio};

use crate::command::Home;
use crate::doctor::SECTIONS;

/// Starts a job of so many processes of the binary, as root and on fewer cores than processes too.
fn job(home: &Home, num_processes: usize, arguments: &str) -> std::process::Output {
    let mut job = Command::new("mpirun");
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("COLUMNS", "1000"),
    ] {
        job.env(name, value);
    }
    job.args(["-n", &num_processes.to_string()]).arg(env!("CARGO_BIN_EXE_pipezero"));
    job.args(arguments.split_whitespace()).current_dir(home.path("")).stdin(Stdio::null());
    job.output().expect("mpirun is there; scripts/mpi.sh installs it")
}

#[test]
fn processes_write_one_report() {
    let home = Home::new();
    // One port serves the worlds of all parts, one after the other.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = job(&home, 4, &format!("doctor run.json --set comm.backend=mpi --set comm.port={free}"));
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for expected in [
        "bits: 8 small models of 2 steps are the same",
        "memory: as planned on all 4 ranks",
        "traffic: as planned on all 4 ranks",
        "shared folder: all processes see the same folder",
    ] {
        assert_eq!(stdout.matches(expected).count(), 1, "{stdout}\n{stderr}");
    }
    assert_eq!(home.names(), ["doctor-run.txt", "run.json", "text.txt"]);
    let report = home.read("doctor-run.txt");
    let headings: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(headings, SECTIONS);
}

/// One process writes it, and all have looked.
#[test]
fn processes_that_would_fail_say_so_once() {
    let home = Home::new();
    std::fs::remove_file(home.path("text.txt")).unwrap();
    let output = job(&home, 2, "doctor run.json --set comm.backend=mpi --set parallel.data=1");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
    assert_eq!(stderr.matches("error: 1 check failed: see doctor-run.txt").count(), 1, "{stderr}");
    assert!(stdout.contains("failed    the run itself    text: process 0: "), "{stdout}");
}
