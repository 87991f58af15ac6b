//! Runs that take turns: whose step comes when, and where an interrupted round ends. What each of them computes is held to the run alone by
//! the tests of the command line.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use pipezero_config::Run;
use pipezero_plan::Plan;
use pipezero_train::{
    EndedRun, EvalLine, Left, Observer, RunDir, RunInTurn, StepLine, Training, TrainingError, train_several,
};
use tests::example;

/// The steps of all runs in the order in which they ended.
type Log = Mutex<Vec<(&'static str, u64)>>;

/// Notes the steps of a run, and interrupts all runs after one of them.
struct Watch<'a> {
    name: &'static str,
    log: &'a Log,
    interrupts_after: Option<u64>,
    interrupted: &'a AtomicBool,
}

impl Observer for Watch<'_> {
    fn step(&mut self, line: &StepLine) {
        self.log.lock().expect("no test has failed").push((self.name, line.step));
        if self.interrupts_after == Some(line.step) {
            self.interrupted.store(true, Ordering::Relaxed);
        }
    }

    fn evaluation(&mut self, _: &EvalLine) {}
}

/// A run of so many steps that take no time.
fn training(steps: u64) -> Training {
    training_from(steps, None)
}

/// The same, whose plan may say which rank of a job is its first.
fn training_from(steps: u64, first_rank: Option<usize>) -> Training {
    let keys = [
        "model.num_layers=16",
        "zero_optimization.unit_layers=1",
        "model.forward_ms=0",
        "model.backward_input_ms=0",
        "model.backward_weight_ms=0",
    ];
    let mut run = Run { steps, ..example("timed-overlap.json", &keys) };
    run.comm.first_rank = first_rank;
    Training::new(Plan::new(run).expect("a valid run")).expect("the ranks start")
}

/// Trains runs of these names and steps in turn; one of them may interrupt all after a step.
fn in_turn(
    home: &Path,
    runs: &[(&'static str, u64)],
    interrupts: Option<(&str, u64)>,
) -> (Vec<(&'static str, u64)>, Vec<EndedRun>) {
    let (log, interrupted) = (Log::default(), AtomicBool::new(false));
    let directories: Vec<RunDir> =
        runs.iter().map(|(name, _)| RunDir::create(&home.join(name), false).expect("a new folder")).collect();
    let mut watches: Vec<Watch<'_>> = runs
        .iter()
        .map(|&(name, _)| Watch {
            name,
            log: &log,
            interrupts_after: interrupts.filter(|(run, _)| *run == name).map(|(_, step)| step),
            interrupted: &interrupted,
        })
        .collect();
    let members =
        runs.iter().zip(&directories).zip(&mut watches).map(|((&(name, steps), directory), observer)| {
            RunInTurn { name: name.to_owned(), ranks: 0..8, training: training(steps), directory, observer }
        });
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let ended = train_several(members.collect(), &is_interrupted).expect("all runs end well");
    drop(watches);
    (log.into_inner().expect("no test has failed"), ended)
}

#[test]
fn a_round_is_a_step_of_each_run_that_has_steps_left() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (log, ended) = in_turn(home.path(), &[("a", 3), ("b", 1), ("c", 2)], None);
    assert_eq!(log, [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("c", 2), ("a", 3)]);
    // In the order of the runs, not in that of their ends.
    let ended: Vec<_> =
        ended.iter().map(|run| (run.name.as_str(), run.summary.steps, run.summary.interrupted)).collect();
    assert_eq!(ended, [("a", 3, false), ("b", 1, false), ("c", 2, false)]);
}

#[test]
fn an_interrupted_round_ends_with_the_same_step_of_each() {
    for (interrupts, log_len) in [(("a", 2), 5), (("b", 2), 5)] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let (log, ended) = in_turn(home.path(), &[("a", 9), ("short", 1), ("b", 9)], Some(interrupts));
        assert_eq!(log.len(), log_len, "{log:?}");
        let ended: Vec<_> =
            ended.iter().map(|run| (run.name.as_str(), run.summary.steps, run.summary.interrupted)).collect();
        assert_eq!(ended, [("a", 2, true), ("short", 1, false), ("b", 2, true)]);
        for run in ["a", "b"] {
            assert!(home.path().join(run).join("checkpoints/step-00000002").is_dir(), "{run}");
        }
    }
}

/// How many have come to where all are to be at once.
struct Meeting {
    num_missing: Mutex<usize>,
    all_are_here: Condvar,
}

impl Meeting {
    /// No run takes so long for a step.
    const LONGEST: Duration = Duration::from_secs(120);

    /// Waits until all have come.
    fn wait(&self) {
        let mut missing = self.num_missing.lock().expect("no test has failed");
        *missing -= 1;
        self.all_are_here.notify_all();
        let waited = self.all_are_here.wait_timeout_while(missing, Self::LONGEST, |missing| *missing > 0);
        let (missing, _) = waited.expect("no test has failed");
        assert_eq!(*missing, 0, "runs that did not come");
    }
}

/// Waits after its first step until all have done theirs, which those that take turns with it would never.
struct Waiting<'a> {
    all: &'a Meeting,
    steps: u64,
}

impl Observer for Waiting<'_> {
    fn step(&mut self, line: &StepLine) {
        self.steps += 1;
        if line.step == 1 {
            self.all.wait();
        }
    }

    fn evaluation(&mut self, _: &EvalLine) {}
}

/// Were any of them to wait for another's turn, none would end.
#[test]
fn runs_whose_ranks_do_not_meet_train_at_the_same_time() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let runs: [(&str, Range<usize>, u64); 3] = [("a", 4..12, 2), ("b", 12..20, 3), ("c", 20..28, 1)];
    let all = Meeting { num_missing: Mutex::new(runs.len()), all_are_here: Condvar::new() };
    let directories = runs
        .each_ref()
        .map(|(name, ..)| RunDir::create(&home.path().join(name), false).expect("a new folder"));
    let mut watches = runs.each_ref().map(|_| Waiting { all: &all, steps: 0 });
    let members = runs.iter().zip(&directories).zip(&mut watches).map(
        |(((name, ranks, steps), directory), observer)| RunInTurn {
            name: (*name).to_owned(),
            ranks: ranks.clone(),
            training: training(*steps),
            directory,
            observer,
        },
    );
    let ended = train_several(members.collect(), &|| false).expect("all runs end well");
    let ended: Vec<_> = ended.iter().map(|run| (run.name.as_str(), run.summary.steps)).collect();
    assert_eq!(ended, [("a", 2), ("b", 3), ("c", 1)]);
    assert_eq!(watches.map(|watch| watch.steps), [2, 3, 1]);
}

/// Those that meet by way of another too.
#[test]
fn runs_that_meet_on_a_rank_take_turns() {
    for (ranks, expected) in [
        ([0..8, 8..16, 4..12], vec![("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2)]),
        ([4..12, 0..8, 11..19], vec![("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2)]),
    ] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let (log, interrupted) = (Log::default(), AtomicBool::new(false));
        let names = ["a", "b", "c"];
        let directories =
            names.map(|name| RunDir::create(&home.path().join(name), false).expect("a new folder"));
        let mut watches =
            names.map(|name| Watch { name, log: &log, interrupts_after: None, interrupted: &interrupted });
        let members = names.iter().zip(ranks).zip(&directories).zip(&mut watches).map(
            |(((name, ranks), directory), observer)| RunInTurn {
                name: (*name).to_owned(),
                ranks,
                training: training(2),
                directory,
                observer,
            },
        );
        train_several(members.collect(), &|| false).expect("all runs end well");
        assert_eq!(log.into_inner().expect("no test has failed"), expected);
    }
}

/// More or fewer than the plan has, or not where the plan says: nobody takes a step.
#[test]
fn ranks_that_are_not_those_of_the_plan_are_refused_before_any_step() {
    for (ranks, first_rank) in [(0..7, None), (2..12, None), (0..8, Some(8))] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let names = ["right", "wrong"];
        let directories =
            names.map(|name| RunDir::create(&home.path().join(name), false).expect("a new folder"));
        let log = Log::default();
        let interrupted = AtomicBool::new(false);
        let mut watches =
            names.map(|name| Watch { name, log: &log, interrupts_after: None, interrupted: &interrupted });
        let trainings = [training_from(2, None), training_from(2, first_rank)];
        let members =
            names.iter().zip([0..8, ranks.clone()]).zip(trainings).zip(&directories).zip(&mut watches);
        let members = members.map(|((((name, ranks), training), directory), observer)| RunInTurn {
            name: (*name).to_owned(),
            ranks,
            training,
            directory,
            observer,
        });
        let error = train_several(members.collect(), &|| false).expect_err("the ranks are others");
        assert_eq!(error.name, "wrong");
        let TrainingError::OtherRanks { given, needed: 8, first } = &*error.error else { panic!("{error}") };
        assert_eq!((given, *first), (&ranks, first_rank));
        assert!(matches!(&error.others[..], [(name, Left::Untouched)] if name == "right"), "{error}");
        assert_eq!(log.into_inner().expect("no test has failed"), []);
    }
}
