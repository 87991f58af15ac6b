//! `doctor` where each rank is a process of `mpirun`.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::Home;
use crate::doctor::SECTIONS;
use crate::mpi::launch;
use crate::processes::{ranks_of, signal, until};

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
    job.output().expect("mpirun is there; engine/mpi.sh installs it")
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
    let page = include_str!("../../../docs/doctor.md");
    let (_, example) =
        page.split_once("$ mpirun -n 4 pipezero doctor engine").expect("the page has an example");
    let shown = names_of_checks(example);
    let missing: Vec<String> =
        names_of_checks(&stdout).into_iter().filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "docs/doctor.md does not show {missing:?}");
    assert_eq!(home.names(), ["doctor-run.txt", "run.json", "text.txt"]);
    let report = home.read("doctor-run.txt");
    let headings: Vec<&str> = report.lines().filter_map(|line| line.strip_prefix("== ")).collect();
    assert_eq!(headings, SECTIONS);
}

/// The part and the name of each check that is printed, without the host's name.
fn names_of_checks(printed: &str) -> Vec<String> {
    let is_check =
        |line: &&str| ["ok ", "warning ", "failed "].iter().any(|verdict| line.starts_with(verdict));
    let name = |line: &str| {
        let (name, _) = line.split_once(": ")?;
        let mut words: Vec<&str> = name.split_whitespace().skip(1).collect();
        if words.iter().rev().nth(1) == Some(&"of") && words.contains(&"hosts") {
            words.pop();
        }
        Some(words.join(" "))
    };
    printed.lines().filter(is_check).filter_map(name).collect()
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

/// Between two small models MPI waits for all processes, and would wait for ever for one that has ended.
#[test]
fn a_rank_that_is_lost_amid_small_models_is_named_in_time() {
    for (how, rank, end) in
        [("KILL", 2, "does not answer: its process has ended"), ("STOP", 1, "does not answer")]
    {
        let home = Home::new();
        let mut child = launch(&home, "-- doctor run.json --set comm.timeout_s=3").spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut said = String::new();
        while !said.ends_with(" s  parity\n") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        let (_, pid) = until("all ranks run", || {
            ranks_of(&child, "OMPI_COMM_WORLD_RANK").into_iter().find(|(of, _)| *of == rank)
        });
        signal(how, &pid);
        let lost = Instant::now();
        let is_there = || home.names().iter().any(|name| name == "doctor-run.txt").then_some(());
        until("there is a report", is_there);
        assert!(lost.elapsed() < Duration::from_secs(20), "{:?}", lost.elapsed());
        let report = home.read("doctor-run.txt");
        let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
        let check = words.split_once("failed parity processes: ").map_or("", |(_, check)| check);
        let (found, _) = check.split_once(" rule: every process comes").unwrap_or_default();
        assert!(found.starts_with(&format!("rank {rank}, last heard of at ")), "{how}: {report}");
        assert!(found.ends_with(&format!(": {end}")), "{how}: {report}");
        if how == "STOP" {
            signal("KILL", &pid);
        }
        stderr.read_to_string(&mut said).unwrap();
        assert!(!child.wait().unwrap().success());
        // One process speaks.
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
    }
}
