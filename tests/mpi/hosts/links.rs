//! A link that is cut, or lets nothing through in one direction: both its ends are named, in time, by each side that can still talk.

use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tests::faults::{FAULT, FOLDER, Fault, Kind, NUM_RANKS, TIME_FOR_REPORT, TIMEOUT_S, Written, reports_in};
use tests::{Phase, Sample};

use super::{Hosts, Line, address};
use crate::mpi::faults::in_a_job::COMMAND;
use crate::mpi::one_job;

/// Each stage is a host with its two data ranks.
const NUM_HOSTS: usize = 3;
const RANKS_PER_HOST: usize = NUM_RANKS / NUM_HOSTS;
/// The longest that a job takes to come to its fault and to end.
const LONGEST: Duration = Duration::from_secs(60);

/// The file with what the processes print.
const SAID: &str = "said";

/// What happens to the links of the host whose rank is at the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// No other host can be reached.
    Cut,
    /// What it sends to another host, that of a neighbouring stage or of rank 0, is lost, and nobody is told.
    OneWay,
}

#[test]
fn a_link_that_breaks_is_reported_by_both_its_ends() {
    let _one_at_a_time = one_job();
    let mut sample = Sample::one_in(8, "link of a job that is cut or loses what it carries");
    for (phase, name) in Phase::ALL {
        for broken in [Broken::Cut, Broken::OneWay] {
            for host in 0..NUM_HOSTS {
                if sample.takes_next() {
                    let Some(hosts) = Hosts::new(NUM_HOSTS, Line::Switch) else { return };
                    let fault = Fault { phase, kind: Kind::Command, rank: host * RANKS_PER_HOST };
                    let last = breaks(&hosts, broken, fault);
                    println!(
                        "{name} {broken:?} at host {host}: named by both ends, the last after {last:.2?}"
                    );
                }
            }
        }
    }
}

/// Runs a job in which the link breaks; how long after that the last rank had its report.
fn breaks(hosts: &Hosts, broken: Broken, fault: Fault) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let host = fault.rank / RANKS_PER_HOST;
    let other = match fault.phase {
        // All send the process of rank 0 their weights.
        Phase::Saving if host > 0 => 0,
        // The last stage sends to the one before it.
        _ if host + 1 == NUM_HOSTS => host - 1,
        _ => host + 1,
    };
    let command = match broken {
        Broken::Cut => format!("ip -n {} link set port{host} down", hosts.net()),
        Broken::OneWay => format!(
            "ip -n {} neigh replace {} lladdr 02:00:00:00:00:99 nud permanent dev eth0",
            hosts.host(host),
            address(other)
        ),
    };
    let this = env::current_exe().expect("a test is a program");
    let mut job = hosts.job(
        RANKS_PER_HOST,
        &[
            "env",
            &format!("{FAULT}={fault}"),
            &format!("{COMMAND}={command}"),
            &format!("{FOLDER}={}", folder.path().display()),
            this.to_str().expect("a name in UTF-8"),
            "mpi::faults::in_a_job",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ],
    );
    let said = File::create(folder.path().join(SAID)).expect("a folder");
    job.stdout(said.try_clone().expect("a file")).stderr(said);
    let reports = all_reports(folder.path(), job.spawn().expect("ip"), hosts);
    let said = fs::read_to_string(folder.path().join(SAID)).unwrap_or_default();
    let what = format!("{said}\n{fault}, {broken:?}");
    assert_eq!(reports.len(), NUM_RANKS, "{what}: each rank has a report: {reports:#?}");
    for report in &reports {
        check_report(&what, broken, [host, other], report);
    }
    let is_apart = |rank: usize| rank / RANKS_PER_HOST == host;
    let speaks = |apart: bool| reports.iter().any(|report| report.speaks && is_apart(report.rank) == apart);
    assert!(speaks(false), "{what}: nobody speaks for those that are left: {reports:#?}");
    if broken == Broken::Cut {
        assert!(speaks(true), "{what}: nobody speaks on the host that is cut off: {reports:#?}");
        let num_speakers = reports.iter().filter(|report| report.speaks).count();
        assert_eq!(num_speakers, 2, "{what}: one rank speaks on each side: {reports:#?}");
    }
    let last = reports.iter().map(|report| report.after).max().expect("there are reports");
    let longest = Duration::from_secs(TIMEOUT_S) + TIME_FOR_REPORT;
    assert!(last <= longest, "{what}: the last report took {last:.2?}");
    last
}

/// The reports of all ranks, once they have written them; then the job is ended, whose `mpirun` does not hear of ranks that were cut off.
fn all_reports(folder: &Path, mut mpirun: Child, hosts: &Hosts) -> Vec<Written> {
    let start = Instant::now();
    let num_written = || (0..NUM_RANKS).filter(|rank| folder.join(rank.to_string()).exists()).count();
    while num_written() < NUM_RANKS && start.elapsed() < LONGEST {
        thread::yield_now();
    }
    hosts.end_processes();
    mpirun.wait().expect("it was started");
    reports_in(folder)
}

/// Somebody waited in vain over the broken link; who does not answer is at its other side.
fn check_report(what: &str, broken: Broken, [host, other]: [usize; 2], report: &Written) {
    let lines: Vec<&str> = report.text.lines().collect();
    let rank_of = |line: &str| -> Option<usize> {
        line.strip_prefix("  rank ")?.split([' ', ',']).next()?.parse().ok()
    };
    let hosts_in = |text: &str| -> Vec<usize> {
        let numbers = text.split(|character: char| !character.is_ascii_digit());
        numbers.filter_map(|number| number.parse::<usize>().ok()).map(|rank| rank / RANKS_PER_HOST).collect()
    };
    // `rank 4 at ...: waited 3.0s for rank 2 in a transfer of 256 elements`
    let is_link = |line: &&str| {
        let waited = line.split_once(": waited ").and_then(|(_, waited)| waited.split_once(" for "));
        let Some((_, missing)) = waited else { return false };
        let missing = hosts_in(missing.split(" in ").next().unwrap_or_default());
        let Some(waits) = rank_of(line).map(|rank| rank / RANKS_PER_HOST) else { return false };
        match broken {
            Broken::Cut => missing.iter().any(|&missing| (missing == host) != (waits == host)),
            Broken::OneWay => {
                [[host, other], [other, host]].iter().any(|[a, b]| waits == *a && missing.contains(b))
            }
        }
    };
    assert!(
        lines.iter().any(is_link),
        "{what}: rank {} names no end of the link:\n{}",
        report.rank,
        report.text
    );
    let own_side = report.rank / RANKS_PER_HOST == host;
    for silent in
        lines.iter().filter(|line| line.contains(": does not answer")).filter_map(|line| rank_of(line))
    {
        let silent = silent / RANKS_PER_HOST;
        let is_beyond = match broken {
            Broken::Cut => (silent == host) != own_side,
            Broken::OneWay => silent == host || silent == other,
        };
        assert!(
            is_beyond,
            "{what}: rank {} says that host {silent} is silent:\n{}",
            report.rank, report.text
        );
    }
}
