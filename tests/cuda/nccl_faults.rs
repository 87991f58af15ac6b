//! A rank with a GPU of its own that is killed, or frozen, or of which NCCL reports an error, at each phase of a run and in each stage: all other
//! processes end, in time, with one report that names it. `fault_matrix` and `mpi::faults` do the same where ranks are threads, and over MPI.

use std::path::Path;
use std::process::Output;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::faults::{
    FAILED_AT, FAULT, FOLDER, Fault, Kind, NUM_RANKS, RANKS, TIME_FOR_REPORT, TIMEOUT_S, WEIGHTS,
    check_report, now_ns, ranks_in, reports_in, since_failure,
};
use tests::{Phase, Sample, fake_gpu};

use super::nccl_processes::job;

const TESTS: &str = "cuda::on_a_device::nccl_faults";
/// A process that has not ended so long after another one, or after the beginning, hangs.
const LONGEST: Duration = Duration::from_secs(60);
/// Ranks may take so long beside the usual, since what they have for GPUs computes on the cores that other tests use meanwhile.
const TIME_FOR_OTHERS: Duration = Duration::from_secs(2);
/// A process may take so long from its report to its end.
const TIME_TO_END: Duration = Duration::from_secs(2);

#[test]
fn a_rank_that_fails_is_named_and_all_others_end_in_time_on_the_fake_gpu() {
    let Some(folder) = fake_gpu() else { return };
    let mut sample =
        Sample::one_in(7, "rank with a GPU that is killed or frozen, or of which NCCL reports an error");
    for (phase, _) in Phase::ALL {
        for kind in [Kind::Nccl, Kind::Kill, Kind::Freeze] {
            for rank in RANKS {
                if sample.takes_next() {
                    let fault = Fault { phase, kind, rank };
                    let [reported, ended] = fail(folder, fault);
                    println!("{fault}: named by all after {reported:.2?}, and ended after {ended:.2?}");
                }
            }
        }
    }
    assert_eq!(sample.num_cases(), 45);
}

/// Runs a job in which a rank fails so; how long after it the last of the others had its report, and had ended.
fn fail(libraries: &Path, fault: Fault) -> [Duration; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let (ended, frozen) = run(libraries, fault, folder.path());
    let fails_alone = fault.kind != Kind::Nccl;
    // Whose processes go on after the fault.
    let left: Vec<usize> = (0..NUM_RANKS).filter(|&rank| rank != fault.rank || !fails_alone).collect();
    let said: Vec<String> = ended.iter().map(Ended::to_string).collect();
    let said = said.join("\n");
    for Ended { rank, output, .. } in &ended {
        assert_eq!(output.status.success(), left.contains(rank), "{fault}: rank {rank}\n{said}");
    }
    assert_eq!(frozen, fault.kind == Kind::Freeze, "{fault}: who else has not ended\n{said}");

    assert!(!folder.path().join(WEIGHTS).exists(), "{fault}: half a file has no name");
    let reports = reports_in(folder.path());
    let ranks: Vec<usize> = reports.iter().map(|report| report.rank).collect();
    assert_eq!(ranks, left, "{fault}: each has a report\n{said}");
    for report in &reports {
        match fault.kind {
            Kind::Nccl => check_report_of_nccl(fault, &report.text),
            _ => check_report(fault, &report.text),
        }
    }
    let speakers: Vec<usize> =
        reports.iter().filter(|report| report.speaks).map(|report| report.rank).collect();
    assert_eq!(speakers, [left[0]], "{fault}: the lowest that is left speaks\n{said}");
    let reported = reports.iter().map(|report| report.after).max().expect("there are reports");
    let waits = if fault.kind == Kind::Kill { Duration::ZERO } else { Duration::from_secs(TIMEOUT_S) };
    let longest = waits + TIME_FOR_REPORT + TIME_FOR_OTHERS;
    assert!(reported <= longest, "{fault}: the last report took {reported:.2?}\n{said}");
    let of_others = ended.iter().filter(|ended| left.contains(&ended.rank));
    let ended = of_others.map(|ended| ended.after).max().expect("processes have ended");
    assert!(ended <= reported + TIME_TO_END, "{fault}: the last process ended after {ended:.2?}\n{said}");
    [reported, ended]
}

/// The rank whose operation failed is the first that is named, with what NCCL says, and each other is named once.
fn check_report_of_nccl(fault: Fault, report: &str) {
    let first = report.lines().nth(1).unwrap_or_default();
    let is_first = first.starts_with(&format!("  rank {} at ", fault.rank))
        && first.ends_with("remote process exited or there was a network error");
    assert!(is_first, "{fault}:\n{report}");
    assert_eq!(ranks_in(report), Vec::from_iter(0..NUM_RANKS), "{fault}:\n{report}");
    assert!(!report.contains("does not answer"), "{fault}:\n{report}");
}

/// How a process has ended, and when after the fault.
struct Ended {
    rank: usize,
    after: Duration,
    output: Output,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [printed, errors] =
            [&self.output.stdout, &self.output.stderr].map(|text| String::from_utf8_lossy(text));
        write!(f, "rank {}, after {:.2?}: {}\n{printed}\n{errors}", self.rank, self.after, self.output.status)
    }
}

/// Runs the job until all processes have ended, of which a frozen one is killed last; and whether there was one, and no other was left.
fn run(libraries: &Path, fault: Fault, folder: &Path) -> (Vec<Ended>, bool) {
    let (tell, told) = channel();
    let mut pids = Vec::new();
    for (rank, mut command) in job(libraries, &folder.join("host"), NUM_RANKS, TESTS).into_iter().enumerate()
    {
        command.env(FAULT, fault.to_string()).env(FOLDER, folder);
        if rank == fault.rank {
            let when = match fault.kind {
                Kind::Nccl => Some("FAKE_GPU_NCCL_FAIL_WHEN"),
                Kind::Freeze => Some("FAKE_GPU_NCCL_FREEZE_WHEN"),
                Kind::Kill | Kind::Pause | Kind::Command => None,
            };
            command.envs(when.map(|name| (name, folder.join(FAILED_AT))));
        }
        let process = command.spawn().expect("the test's own program starts");
        pids.push(Pid::from_child(&process));
        let tell = tell.clone();
        thread::spawn(move || tell.send((rank, process.wait_with_output().expect("it ends"), now_ns())));
    }
    drop(tell);
    let mut ended = Vec::new();
    let is_left = |rank: usize, ended: &[Ended]| ended.iter().all(|ended: &Ended| ended.rank != rank);
    let mut has_frozen = false;
    while ended.len() < NUM_RANKS {
        let left: Vec<usize> = (0..NUM_RANKS).filter(|&rank| is_left(rank, &ended)).collect();
        if fault.kind == Kind::Freeze && left == [fault.rank] && !has_frozen {
            has_frozen = true;
            kill_process(pids[fault.rank], Signal::KILL).expect("it is frozen");
        }
        match told.recv_timeout(LONGEST) {
            Ok((rank, output, at_ns)) => {
                let after = if folder.join(FAILED_AT).exists() {
                    since_failure(folder, at_ns)
                } else {
                    Duration::ZERO
                };
                ended.push(Ended { rank, after, output });
            }
            Err(RecvTimeoutError::Timeout) => {
                for &rank in &left {
                    let _ = kill_process(pids[rank], Signal::KILL);
                }
                panic!("{fault}: ranks {left:?} hang");
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("each process has ended once"),
        }
    }
    (ended, has_frozen)
}
