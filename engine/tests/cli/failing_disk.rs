//! A disk that fails once, at every write, fsync and rename of a run: whatever the run does then, it can be resumed and ends with the same
//! bits.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{Home, Printed};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
/// No error, but half of what was to be written.
const SHORT: i32 = 0;

/// What is loaded before the C library.
pub(crate) fn shim(home: &Home) -> PathBuf {
    let shim = home.path("failing_disk.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/failing_disk.c");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).args([source, "-ldl"]).status();
    assert!(compiled.unwrap().success(), "cc compiles {source}");
    shim
}

/// Calls that may fail, and calls that change what is in a folder, as the shim has counted them.
pub(crate) fn counted(home: &Home) -> [usize; 2] {
    let counts: Vec<usize> = home.read("count").split(' ').map(|count| count.parse().unwrap()).collect();
    counts.try_into().unwrap()
}

#[test]
fn a_disk_that_fails_once_anywhere_loses_nothing() {
    let one_in = if crate::sample::in_full() { 1 } else { 6 };
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    let shim = shim(&home);
    home.run("train run.json --out whole").success();
    let weights = |name: &str| std::fs::read(home.path(name).join("weights.safetensors"));
    let expected = weights("whole").unwrap();
    let run = |name: &str, fail_at: usize, error: i32| {
        let mut command = home.command(format!("train run.json --out {name}/out"));
        command.env("LD_PRELOAD", &shim).env("COUNT_FILE", home.path("count"));
        command.env("FAIL_AT", fail_at.to_string()).env("FAIL_WITH", error.to_string());
        Printed::new(command.output().unwrap(), &home.path(""))
    };
    run("counted", 0, EIO).success();
    let [num_calls, _] = counted(&home);
    assert!(num_calls > 50, "{num_calls} calls");
    let (mut num_runs, mut num_failed, mut num_warned) = (0, 0, 0);
    for fail_at in 1..=num_calls {
        for (index, error) in [EIO, ENOSPC, SHORT].into_iter().enumerate() {
            if (3 * fail_at + index) % one_in != 0 {
                continue;
            }
            let name = format!("{fail_at}-{error}");
            let printed = run(&name, fail_at, error);
            num_runs += 1;
            num_warned += usize::from(printed.stderr.contains("warning: no checkpoint after step"));
            if printed.status == Some(0) {
                assert!(weights(&format!("{name}/out")).unwrap() == expected, "{name}");
            } else {
                num_failed += 1;
                assert_ne!(error, SHORT, "{}", printed.stderr);
                let says_why = ["Input/output error", "No space left on device"]
                    .iter()
                    .any(|why| printed.stderr.contains(why));
                assert!(printed.status == Some(1) && says_why, "{name}: {}", printed.stderr);
            }
            // In any case the run is there, or can be resumed.
            home.run(format!("train run.json --out {name}/out --resume")).success();
            assert!(weights(&format!("{name}/out")).unwrap() == expected, "{name}");
            std::fs::remove_dir_all(home.path(&name)).unwrap();
        }
    }
    println!(
        "{num_calls} calls, {num_runs} runs, {num_failed} ended with an error, {num_warned} without a checkpoint"
    );
    assert!(num_failed > 0 && num_warned > 0);
}
