//! A disk that is full: a run goes on, or ends with its state saved elsewhere, and what was whole stays whole.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::command::Home;

/// A file system of its own with so much space, in a folder of the home; `None` where this process may not mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(home: &Home, name: &str, kib: usize) -> Option<Self> {
        let path = home.path(name);
        std::fs::create_dir(&path).unwrap();
        let size = format!("size={kib}k");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        let is_mounted = mounted.is_ok_and(|status| status.success());
        if !is_mounted {
            println!("skipped: this process may not mount a file system");
        }
        is_mounted.then_some(Self(path))
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let full = std::fs::write(self.0.join("rest"), vec![0; 64 << 20]);
        assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn steps_of(home: &Home, run: &Path) -> Vec<String> {
    home.names_in(run.join("checkpoints").to_str().unwrap())
}

/// The disk has room for one checkpoint and the weights, and not for a second checkpoint.
#[test]
fn checkpoints_that_do_not_fit_are_warned_of_and_the_earlier_one_stays() {
    let home = Home::new();
    let Some(_disk) = SmallDisk::new(&home, "disk", 400) else { return };
    let keys = "--set steps=6 --set checkpoint.every=2";
    let printed = home.run(format!("train run.json --out disk/out {keys}"));
    assert!(
        printed.stderr.contains("warning: no checkpoint after step 4, and the run goes on"),
        "{}",
        printed.stderr
    );
    assert!(printed.stderr.contains("No space left on device"), "{}", printed.stderr);
    printed.success();
    assert_eq!(steps_of(&home, Path::new("disk/out")), ["step-00000002"]);
    // The one that is there is whole.
    std::fs::remove_file(home.path("disk/out/weights.safetensors")).unwrap();
    let resumed = home.run("train run.json --out disk/out --resume --set steps=7");
    assert!(resumed.stderr.contains("the run goes on after step 2\n"), "{}", resumed.stderr);
    resumed.success();
    // By rule it ends the run instead.
    let stopped =
        home.run(format!("train run.json --out disk/out --overwrite {keys} --set checkpoint.on_error=stop"));
    let stderr = stopped.failure(1);
    assert!(stderr.contains("No space left on device"), "{stderr}");
}

/// Whoever removes the directory of a run ends it at its next step.
#[test]
fn a_directory_that_vanishes_ends_a_run_with_its_state_saved_elsewhere() {
    let home = Home::with(&[("\"steps\": 3", "\"steps\": 100000"), ("\"every\": 2", "\"every\": 0")]);
    let child = started(&home, "train run.json --out out --rescue rescued", "out/metrics.jsonl");
    std::fs::rename(home.path("out"), home.path("elsewhere")).unwrap();
    let step = saved_in_rescued(child, "out is not the folder any more in which the run began: No such file");
    assert_eq!(home.names_in("rescued/checkpoints"), [format!("step-{step:08}")]);
    // A run directory like any other.
    assert!(!home.path("out").exists());
    home.run("eval rescued").success();
    // One that took its name is another run's.
    let child = started(&home, "train run.json --out out --rescue rescued2", "out/metrics.jsonl");
    std::fs::rename(home.path("out"), home.path("elsewhere2")).unwrap();
    home.run("train run.json --out out --set steps=1").success();
    let stderr = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(stderr.contains(" the run began: "), "{stderr}");
    assert_eq!(home.names_in("out").len(), 6, "{:?}", home.names_in("out"));
}

/// A run that writes its metrics already.
fn started(home: &Home, command: &str, metrics: &str) -> Child {
    let mut child = home.command(command).spawn().unwrap();
    let metrics = home.path(metrics);
    while std::fs::read_to_string(&metrics).unwrap_or_default().is_empty()
        && child.try_wait().unwrap().is_none()
    {
        std::thread::yield_now();
    }
    child
}

/// The step after which a run that failed for this reason has saved its state.
fn saved_in_rescued(child: Child, reason: &str) -> u64 {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(reason), "{stderr}");
    let saved = stderr.lines().last().unwrap();
    let step: u64 = saved.split_whitespace().nth(4).unwrap().parse().unwrap();
    let expected = format!(
        "the state after step {step} is saved in rescued: go on with the same command and --resume --out rescued"
    );
    assert_eq!(saved, expected);
    step
}

#[test]
fn a_full_disk_ends_a_run_with_its_state_saved_elsewhere() {
    let home = Home::with(&[("\"steps\": 3", "\"steps\": 100000"), ("\"every\": 2", "\"every\": 0")]);
    let Some(disk) = SmallDisk::new(&home, "disk", 256) else { return };
    let child = started(&home, "train run.json --out disk/out --rescue rescued", "disk/out/metrics.jsonl");
    disk.fill();
    let step = saved_in_rescued(child, "disk/out/metrics.jsonl: No space left on device");
    let resumed = home.run(format!("train run.json --out rescued --resume --set steps={}", step + 1));
    assert!(resumed.stderr.contains(&format!("the run goes on after step {step}\n")), "{}", resumed.stderr);
    resumed.success();
}
