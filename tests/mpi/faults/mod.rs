//! A rank that is killed or frozen, at each phase of a run and in each stage: the others say so, in time, and nothing is left.

pub(super) mod in_a_job;
mod restart; // A job that loses a rank goes on from its last checkpoint.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use pipezero_launch::{ConnectedBy, End, Event, Job, Lost};
use tests::faults::{
    FAULT, FOLDER, Fault, Kind, NUM_RANKS, RANKS, TIME_FOR_REPORT, TIMEOUT_S, Written, check_report,
    reports_in,
};
use tests::{Phase, Sample};

#[test]
fn a_rank_that_fails_is_named_by_one_report_in_time() {
    let _one_at_a_time = super::one_job();
    let all = Phase::ALL.iter().flat_map(|&(phase, _)| [Kind::Kill, Kind::Freeze].map(|kind| (phase, kind)));
    let all: Vec<Fault> =
        all.flat_map(|(phase, kind)| RANKS.map(|rank| Fault { phase, kind, rank })).collect();
    let mut sample = Sample::one_in(3, "rank of a job that is killed or frozen");
    for fault in all.into_iter().filter(|_| sample.takes_next()) {
        let last = fail(fault);
        println!("{fault}: named by all others, the last after {last:.2?}");
    }
}

/// It answers by then, as do those that have waited for it.
#[test]
fn a_rank_that_was_frozen_and_goes_on_too_late_comes_first() {
    let _one_at_a_time = super::one_job();
    let folder = tempfile::tempdir().expect("a folder");
    let fault = Fault { phase: Phase::Forward, kind: Kind::Pause, rank: 3 };
    let (end, events) = run(fault, folder.path());
    let all: Vec<usize> = (0..NUM_RANKS).collect();
    assert_eq!(end, End::Lost(Lost { killed: Vec::new(), failed: all, ended: Vec::new() }), "{events:?}");
    assert_eq!(events, []);
    let reports = reports_in(folder.path());
    assert_eq!(reports.len(), NUM_RANKS);
    for Written { text, .. } in &reports {
        let first = text.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with("  rank 3 at "), "{text}");
        assert!(first.contains(": answers again: its process was suspended for "), "{text}");
        assert!(text.contains(": waited ") && text.matches("\n  rank ").count() == NUM_RANKS, "{text}");
    }
    assert_eq!(
        reports.iter().filter(|report| report.speaks).map(|report| report.rank).collect::<Vec<_>>(),
        [0]
    );
}

/// Runs a job in which a rank fails so; how long after it the last of the others had its report.
fn fail(fault: Fault) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let (end, events) = run(fault, folder.path());
    let killed = vec![fault.rank];
    let others: Vec<usize> = (0..NUM_RANKS).filter(|&rank| rank != fault.rank).collect();
    assert_eq!(
        end,
        End::Lost(Lost { killed, failed: others.clone(), ended: Vec::new() }),
        "{fault}: {events:?}"
    );
    let ended = Event::Ending { ranks: vec![(fault.rank, true)] };
    let expected = if fault.kind == Kind::Freeze { vec![ended] } else { Vec::new() };
    assert_eq!(events, expected, "{fault}: who is frozen is ended, and nobody else has to be");

    let reports = reports_in(folder.path());
    let ranks: Vec<usize> = reports.iter().map(|report| report.rank).collect();
    assert_eq!(ranks, others, "{fault}: each has a report");
    reports.iter().for_each(|report| check_report(fault, &report.text));
    let speakers: Vec<usize> =
        reports.iter().filter(|report| report.speaks).map(|report| report.rank).collect();
    assert_eq!(speakers, [usize::from(fault.rank == 0)], "{fault}: the lowest that is left speaks");
    let last = reports.iter().map(|report| report.after).max().expect("there are reports");
    let waits = match fault.kind {
        Kind::Kill | Kind::Nccl | Kind::Command => Duration::ZERO,
        Kind::Freeze | Kind::Pause => Duration::from_secs(TIMEOUT_S),
    };
    assert!(last <= waits + TIME_FOR_REPORT, "{fault}: the last report took {last:.2?}");
    last
}

fn run(fault: Fault, folder: &Path) -> (End, Vec<Event>) {
    let this = env::current_exe().expect("a test is a program");
    let setting = |name: &str, value: &str| OsString::from(format!("{name}={value}"));
    let mut arguments = vec![
        setting(FAULT, &fault.to_string()),
        setting(FOLDER, folder.to_str().expect("a name in UTF-8")),
        this.into_os_string(),
    ];
    arguments.extend(
        ["mpi::faults::in_a_job", "--ignored", "--test-threads=1", "--nocapture"].map(OsString::from),
    );
    let job = Job {
        num_processes: NUM_RANKS,
        connected_by: ConnectedBy::Mpi,
        max_restarts: 0,
        program: "env".into(),
        arguments,
    };
    let mut events = Vec::new();
    let end = job.run(&|| 0, &mut |event| events.push(event)).expect("mpirun is there");
    (end, events)
}
