//! A power cut before any change of a run directory. Of all that was not forced onto the disk contents, names, both or nothing are lost, and the same command with `--resume` still
//! continues from the last checkpoint that was finished, to the bits of a run that was never stopped.

mod disk;
mod trace;

use std::collections::HashSet;
use std::fmt::Display;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use pipezero::run::checkpoint::Checkpoints;
use pipezero::train::{Claim, RunDir, Training};

use self::disk::{Disk, Loses, State};
use self::trace::Call;
use crate::command::Home;
use crate::killed_anywhere::{CASES, Killed, leftovers, train_all, weights};
use crate::resume_changes::copy;
use crate::traced_files::has_strace;

/// A disk may write contents and names in any order, so one may be lost without the other.
const LOSSES: [Loses; 4] = [
    Loses { contents: false, names: false },
    Loses { contents: true, names: false },
    Loses { contents: false, names: true },
    Loses { contents: true, names: true },
];

/// Steps of all runs.
const NUM_STEPS: u64 = 4;

/// The place from which a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// After this step.
    Step(u64),
    /// It is finished.
    Finished,
}

/// The promises of the run directory once something is on the disk.
#[derive(Clone, Copy, Debug)]
struct Promise {
    /// The run continues after this step, or a later one.
    step: u64,
    /// The new start is known, so that no other run is taken for it.
    has_begun: bool,
}

#[test]
fn after_a_power_cut_anywhere_the_run_goes_on() {
    if !has_strace() {
        return;
    }
    let one_in = if crate::sample::in_full() { 1 } else { 40 };
    let home = Home::new();
    train_all(&home);
    let (mut num_states, mut num_trained) = (0, 0);
    let mut seen = HashSet::new();
    for case in &CASES {
        fs::create_dir(home.path("at")).unwrap();
        if let Some(before) = case.before {
            copy(&home, before, "at/out");
        }
        let mut disk = Disk::of(&home.path("at"));
        let here = fs::canonicalize(home.path("")).unwrap();
        let mut promise = Promise { step: if case.before == Some("half") { 2 } else { 0 }, has_begun: false };
        let mut last_renamed = None;
        let mut num_changes = 0;
        for call in traced(&home, case) {
            if !disk.apply(&call, &here) {
                continue;
            }
            num_changes += 1;
            promise.follow(&call, &here, &mut last_renamed);
            for loses in LOSSES {
                let state = disk.state(loses);
                num_states += 1;
                if !seen.insert((case.name, promise.has_begun, promise.step, hash(&state))) {
                    continue;
                }
                let what =
                    format!("{}, before change {}, {loses:?}, {promise:?}", case.name, num_changes + 1);
                put(&home.path("at"), &state);
                let answer = answer(&home.path("at/out")).unwrap_or_else(|error| panic!("{what}: {error}"));
                let expected = check(&home, case, promise, answer, &what);
                if seen.len() % one_in == 0 {
                    let resumed = home.run(format!("train run.json --out at/out --resume {}", case.settings));
                    assert_eq!(resumed.status, Some(0), "{what}: {}", resumed.stderr);
                    assert!(
                        weights(&home, "at/out") == weights(&home, expected),
                        "{what}: {}",
                        resumed.stderr
                    );
                    assert_eq!(leftovers(&home, "at/out"), [] as [std::path::PathBuf; 0], "{what}");
                    num_trained += 1;
                }
            }
        }
        assert!(num_changes > 60, "{}: {num_changes} changes", case.name);
        // At the end the whole run is there: no change was missed.
        put(&home.path("at"), &disk.state(LOSSES[0]));
        assert!(weights(&home, "at/out") == weights(&home, case.expected), "{}", case.name);
        fs::remove_dir_all(home.path("at")).unwrap();
    }
    println!("{num_states} states, {} of them unlike, {num_trained} trained to the end", seen.len());
    assert!(num_states > 2_000 && num_trained > 5, "{num_states} {num_trained}");
}

/// The calls of a run in `at/out`.
fn traced(home: &Home, Killed { begins, settings, .. }: &Killed) -> Vec<Call> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-qq", "-xx", "-s", "1000000", "-e", "signal=none", "-o", "trace"]);
    let calls = "openat,close,lseek,fcntl,dup,dup2,dup3,write,pwrite64,writev,pwritev,pwritev2,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,truncate,ftruncate,\
                 fsync,fdatasync,link,linkat,symlink,symlinkat,copy_file_range,sendfile,fallocate,creat,open";
    strace.args(["-e", &format!("trace={calls}"), env!("CARGO_BIN_EXE_pipezero")]);
    strace.args(format!("train run.json --out at/out {begins} {settings}").split_whitespace());
    let output = strace.current_dir(home.path("")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Call::read_all(&home.read("trace"))
}

impl Promise {
    /// A checkpoint counts once the folder that has its name is on the disk, and so does the list of starts.
    fn follow(&mut self, call: &Call, here: &Path, last_renamed: &mut Option<String>) {
        match call.name.as_str() {
            "rename" | "renameat" => {
                let at = if call.name == "rename" { 1 } else { 3 };
                let name = call.path(at, here).file_name().unwrap().to_str().unwrap().to_owned();
                *last_renamed = Some(name);
            }
            "fsync" => {
                let renamed = last_renamed.take();
                let Some(renamed) = renamed else { return };
                if renamed == "starts.json" && !self.has_begun {
                    self.has_begun = true;
                } else if let Some(step) = renamed.strip_prefix("step-").and_then(|step| step.parse().ok()) {
                    self.step = step;
                }
            }
            _ => {}
        }
    }
}

fn hash(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Makes the folder what it is after a power cut.
fn put(folder: &Path, state: &State) {
    fs::remove_dir_all(folder).unwrap();
    for (path, contents) in state {
        match contents {
            Some(contents) => fs::write(folder.join(path), contents).unwrap(),
            None => fs::create_dir(folder.join(path)).unwrap(),
        }
    }
}

/// The place from which `--resume` would continue, or its error.
fn answer(out: &Path) -> Result<Answer, String> {
    fn words(error: impl Display) -> String {
        error.to_string()
    }
    RunDir::check(out, Claim::GoOn).map_err(words)?;
    let finished = RunDir::of_run_file(out).ok().and_then(|run| run.steps_of_finished().ok().flatten());
    if finished == Some(NUM_STEPS) {
        return Ok(Answer::Finished);
    }
    Training::check_resumable(out, None).map_err(words)?;
    let newest = Checkpoints::of_run(out).newest_before(u64::MAX, &mut Vec::new()).map_err(words)?;
    Ok(Answer::Step(newest.map_or(0, |newest| newest.manifest().position.step)))
}

/// Checks that an answer keeps what was promised; whose weights the run ends with.
fn check<'a>(home: &Home, case: &'a Killed, promise: Promise, answer: Answer, what: &str) -> &'a str {
    match answer {
        Answer::Step(step) => {
            assert!(step >= promise.step, "{what}: {answer:?}");
            // If the earlier run was finished, the new start may have removed its summary and nothing else.
            if step == NUM_STEPS && !promise.has_begun { case.before.unwrap() } else { case.expected }
        }
        // Until the new start is known, the run that was there before is as it was.
        Answer::Finished => {
            let names = [Some(case.expected), case.before.filter(|_| !promise.has_begun)];
            let found = weights(home, "at/out");
            let of = names.into_iter().flatten().find(|name| found == weights(home, name));
            of.unwrap_or_else(|| panic!("{what}: the weights are of no such run"))
        }
    }
}
