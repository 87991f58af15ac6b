//! A run that is killed before any of its changes to the run directory: the same command with `--resume` gives the bits of a run that was never stopped.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::command::Home;
use crate::failing_disk::{counted, shim};
use crate::resume_changes::copy;
use crate::stand_ins::files;

/// The work of a process that is killed.
pub(crate) struct Killed {
    pub(crate) name: &'static str,
    /// The run that is in the directory before, if there is one.
    pub(crate) before: Option<&'static str>,
    /// The options with which the run is begun, beside its settings.
    pub(crate) begins: &'static str,
    /// The settings of the run, with which it is also resumed; the run with the weights of its end.
    pub(crate) settings: &'static str,
    pub(crate) expected: &'static str,
}

/// Arguments of the run whose bits are expected.
const RUN: &str = "--set steps=4 --set checkpoint.every=1";
/// Those of a run that is replaced, with other weights at each step.
const OLD: &str = "--set steps=4 --set checkpoint.every=1 --set seed=9";
/// Those of a branch that begins at step 2.
const BRANCH: &str =
    "--set steps=4 --set checkpoint.every=1 --set checkpoint.keep=3 --set optimizer.params.lr=0.002";

pub(crate) const CASES: [Killed; 4] = [
    Killed { name: "a new run", before: None, begins: "", settings: RUN, expected: "run" },
    Killed {
        name: "a run that replaces another",
        before: Some("old"),
        begins: "--overwrite",
        settings: RUN,
        expected: "run",
    },
    Killed {
        name: "a run that goes on",
        before: Some("half"),
        begins: "--resume",
        settings: RUN,
        expected: "run",
    },
    Killed {
        name: "a branch",
        before: Some("run"),
        begins: "--resume --step 2",
        settings: BRANCH,
        expected: "branch",
    },
];

#[test]
fn a_run_that_is_killed_anywhere_goes_on() {
    // Each kill takes a start and a resume.
    let one_in = if crate::sample::in_full() { 1 } else { 20 };
    let home = Home::new();
    let shim = shim(&home);
    train_all(&home);
    let begin = |place: &str, Killed { before, begins, settings, .. }: &Killed, kill_at: usize| {
        fs::create_dir(home.path(place)).unwrap();
        if let Some(before) = before {
            copy(&home, before, &format!("{place}/out"));
        }
        let mut command = home.command(format!("train run.json --out {place}/out {begins} {settings}"));
        command.env("LD_PRELOAD", &shim).env("COUNT_FILE", home.path("count"));
        command.env("KILL_AT", kill_at.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().unwrap()
    };
    let (mut num_changes, mut num_killed, mut num_earlier) = (0, 0, 0);
    for (number, case) in CASES.iter().enumerate() {
        assert!(begin("counted", case, 0).success(), "{}", case.name);
        let [_, changes] = counted(&home);
        assert!(changes > 60, "{}: {changes} changes", case.name);
        num_changes += changes;
        fs::remove_dir_all(home.path("counted")).unwrap();
        for kill_at in (1..=changes).filter(|kill_at| (kill_at + number) % one_in == 0) {
            let status = begin("killed", case, kill_at);
            // Threads may change things in another order, and then there are fewer calls.
            num_killed += usize::from(!status.success());
            let what = format!("{}, killed before change {kill_at} of {changes}", case.name);
            // Until a start is noted, a run that was there and has done all its steps stays as it is.
            let same = |name: &str, before: &str| {
                let [found, before] =
                    ["killed/out", before].map(|run| fs::read(home.path(run).join(name)).ok());
                found == before
            };
            let is_as_before =
                |before: &&str| same("starts.json", before) && same("weights.safetensors", before);
            let earlier = case.before.filter(|before| *before != "half").filter(is_as_before);
            let resumed = home.run(format!("train run.json --out killed/out --resume {}", case.settings));
            assert_eq!(resumed.status, Some(0), "{what}: {}", resumed.stderr);
            let expected = earlier.unwrap_or(case.expected);
            assert!(weights(&home, "killed/out") == weights(&home, expected), "{what}: {}", resumed.stderr);
            num_earlier += usize::from(earlier.is_some());
            let left = leftovers(&home, "killed/out");
            assert!(left.is_empty(), "{what}: {left:?}");
            fs::remove_dir_all(home.path("killed")).unwrap();
        }
    }
    println!(
        "{num_changes} changes in all, {num_killed} runs killed, {num_earlier} of them before the start was noted"
    );
    assert!(3 * num_earlier < num_killed, "{num_earlier} of {num_killed}");
    assert!(num_killed > 10, "{num_killed}");
}

/// Trains the runs that were there before, and those whose weights are expected.
pub(crate) fn train_all(home: &Home) {
    home.run(format!("train run.json --out run {RUN} --set checkpoint.keep=4")).success();
    home.run(format!("train run.json --out old {OLD}")).success();
    home.run("train run.json --out half --set steps=2 --set checkpoint.every=1").success();
    copy(home, "run", "branch");
    home.run(format!("train run.json --out branch --resume --step 2 {BRANCH}")).success();
    assert!(weights(home, "run") != weights(home, "old") && weights(home, "run") != weights(home, "branch"));
}

/// The weights of a run.
pub(crate) fn weights(home: &Home, name: &str) -> Vec<u8> {
    fs::read(home.path(name).join("weights.safetensors")).unwrap()
}

/// Files and folders that a killed process had begun to write or to remove.
pub(crate) fn leftovers(home: &Home, name: &str) -> Vec<PathBuf> {
    let mut left = Vec::new();
    files(&home.path(name), &mut left);
    left.retain(|path| path.extension().is_some_and(|ending| ending == "partial" || ending == "removed"));
    left
}
