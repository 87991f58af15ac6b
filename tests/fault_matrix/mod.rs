//! A rank that panics or stalls, and a link that stops, at each phase of a run and in each stage, where ranks are threads: all others end, in
//! time, with one report that names the rank, or the link by both its ends. `mpi::faults` and `mpi::hosts::links` do the same with processes.
//!
//! A rank fails in its compute queue, which is asked for something in each phase, also by what a rank sends. A link stops for what the phase
//! waits for: no link can stop within a forward or an update.

mod copies;
mod stopped_link;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pipezero_config::{ReductionPolicy, ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, EngineError, Report};
use pipezero_run::executor::{Cause, CauseKind, RankFailure};
use pipezero_run::world::{NamedDevice, ThreadWorld, World};
use tests::{
    Case, Mask, Moment, NO_ZERO, Phase, RandomBatches, Sample, Trap, TrapDevice, small_run, step_of,
};

use stopped_link::{StoppedLink, world_with};

/// A rank of the first, the middle and the last stage, of both data ranks.
const RANKS: [usize; 3] = [0, 3, 4];
const NUM_RANKS: usize = 6;
/// The step in which something fails: the one before it has shown that everything works.
const STEP: u64 = 2;
const TIMEOUT: Duration = Duration::from_secs(3);
/// Ranks may take so long beside the time-out of the run to end.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// So many cases at once: nearly all of a case is a wait for the time-out.
const AT_ONCE: usize = 3;

/// A rank that a test has forgotten does not stall for ever.
const LONGEST_STALL: Duration = Duration::from_secs(120);

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Panic,
    Stall,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Rank(Kind),
    Link,
}

#[test]
fn whatever_fails_is_named_and_all_others_end_in_time() {
    let faults = [Fault::Rank(Kind::Panic), Fault::Rank(Kind::Stall), Fault::Link];
    let mut sample = Sample::one_in(4, "rank that panics or stalls, or link that stops");
    let mut cases = Vec::new();
    for (phase, word) in Phase::ALL {
        for fault in faults {
            for rank in RANKS {
                if sample.takes_next() {
                    cases.push((phase, word, fault, rank));
                }
            }
        }
    }
    assert_eq!(sample.num_cases(), 45);
    let cases = Mutex::new(cases.into_iter());
    let next = || cases.lock().expect("no case fails while it is taken").next();
    let run_all = || {
        while let Some((phase, word, fault, rank)) = next() {
            let ended = match fault {
                Fault::Rank(kind) => rank_fails(phase, kind, rank),
                Fault::Link => link_stops(phase, rank),
            };
            println!("{word} {fault:?} {rank}: all ended after {ended:.2?}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(run_all);
        }
    });
}

/// Pipeline 3 x data 2, two blocks to a stage, so that each stage gathers for its backwards.
fn plan(level: ZeroLevel) -> Plan {
    let zero = ZeroConfig {
        level,
        resident_units: ResidencyConfig::Strict,
        reduce: if level == ZeroLevel::Zero3 { ReductionPolicy::Every } else { ReductionPolicy::Last },
        ..NO_ZERO
    };
    let case = Case { pipeline: 3, data: 2, num_micro_batches: 4, num_layers: 6, zero, ..Case::ONE_RANK };
    let mut run: Run = small_run(case);
    run.comm.timeout = TIMEOUT;
    Plan::even_if_refused(run).expect("a valid run")
}

/// The report of a run that trains, and then saves its weights if it is to fail at that, and when it was there; `begin_saving` is called before.
fn report_of(
    plan: Plan,
    world: Arc<dyn World>,
    phase: Phase,
    begin_saving: impl FnOnce(),
) -> (Report, Instant) {
    let source: Arc<dyn BatchSource> = Arc::new(RandomBatches::for_plan(&plan, Mask::None));
    let mut engine = Engine::in_world(plan, source, world).expect("ranks start");
    for _ in 1..STEP {
        engine.train_batch().expect("a step without a fault");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weights.safetensors");
    let failed = if phase == Phase::Saving {
        begin_saving();
        engine.save(&path)
    } else {
        engine.train_batch().map(drop)
    };
    let reported_at = Instant::now();
    let Err(EngineError::Stopped(report)) = failed else { panic!("{phase:?}: {failed:?}") };
    assert!(!path.exists(), "half a file has no name");
    assert!(matches!(engine.train_batch(), Err(EngineError::AlreadyStopped)));
    (report, reported_at)
}

/// A rank panics or stalls; how long after that there was a report of all.
fn rank_fails(phase: Phase, kind: Kind, rank: usize) -> Duration {
    let plan = plan(ZeroLevel::Zero3);
    let (hold, blocked) = channel::<()>();
    let blocked = Mutex::new(blocked);
    let fails = move || match kind {
        Kind::Panic => panic!("the kernel is broken"),
        Kind::Stall => {
            let held = blocked.lock().expect("one rank stalls").recv_timeout(LONGEST_STALL);
            assert_eq!(held, Err(RecvTimeoutError::Disconnected), "the rank was forgotten");
        }
    };
    let saves = Arc::new(AtomicBool::new(false));
    let is_saving = Arc::clone(&saves);
    let moment = Moment { rank, phase, step: STEP };
    let trap = Trap::new(moment, move || is_saving.load(Ordering::Acquire), fails);
    let device = NamedDevice { device: Arc::new(TrapDevice(Arc::clone(&trap))), name: "trap".to_owned() };
    let world = Arc::new(ThreadWorld::on(&[device], NUM_RANKS, TIMEOUT, None));
    trap.arm(world.positions());
    let (report, reported_at) = report_of(plan, world, phase, || saves.store(true, Ordering::Release));
    let ended = reported_at - trap.failed_at().expect("the rank came to the phase");
    drop(hold);
    let what = format!("{phase:?}, {kind:?}, rank {rank}: {report}");
    let [first, others @ ..] = report.failures() else { panic!("{what}") };
    assert_eq!(first.rank, rank, "{what}");
    match kind {
        Kind::Panic => assert!(first.cause.to_string().starts_with("panicked"), "{what}"),
        Kind::Stall => assert!(matches!(first.cause, Cause::Stalled), "{what}"),
    }
    let is_there =
        phase == Phase::Saving || phase.has(first.position) && step_of(first.position) == Some(STEP);
    assert!(is_there, "{what}");
    // What the others say is that they were stopped, or for whom they waited.
    let is_effect =
        |failure: &RankFailure| matches!(failure.cause.kind(), CauseKind::Stopped | CauseKind::TimedOut);
    assert!(others.iter().all(is_effect), "{what}");
    let longest = match kind {
        Kind::Panic => Duration::ZERO,
        Kind::Stall => TIMEOUT,
    };
    check(&what, &report, ended, longest);
    ended
}

/// A link stops; how long after that there was a report of all.
fn link_stops(phase: Phase, rank: usize) -> Duration {
    let level = if phase == Phase::Optimizer { ZeroLevel::Zero1 } else { ZeroLevel::Zero3 };
    let plan = plan(level);
    let link = Arc::new(StoppedLink::new(&plan, phase, rank));
    let world = Arc::new(world_with(&link, &plan));
    let (report, reported_at) = report_of(plan, world, phase, || link.begin_saving());
    let ended = reported_at - link.failed_at().expect("the link was used in the phase");
    let what = format!("{phase:?}, link of rank {rank}: {report}");
    let [first, others @ ..] = report.failures() else { panic!("{what}") };
    let mut ends = link.members;
    let named = format!(" between ranks {} and {} arrives ", ends[0], ends[1]);
    assert!(first.cause.to_string().contains(&named), "{what}");
    ends.sort_unstable();
    assert!(ends.contains(&first.rank), "{what}");
    let is_effect = |failure: &RankFailure| match failure.cause.kind() {
        CauseKind::TooSlow => failure.cause.to_string().contains(&named),
        kind => kind == CauseKind::Stopped,
    };
    assert!(others.iter().all(is_effect), "{what}");
    check(&what, &report, ended, TIMEOUT);
    ended
}

/// Each rank is named once, and all ended in time.
fn check(what: &str, report: &Report, ended: Duration, longest: Duration) {
    let mut ranks: Vec<usize> = report.failures().iter().map(|failure| failure.rank).collect();
    ranks.sort_unstable();
    assert!(ranks.is_sorted_by(|one, other| one < other), "a rank is named twice: {what}");
    assert!(ended <= longest + TIME_TO_END, "all ended after {ended:.2?}: {what}");
}
