//! The input of commands: files that never end are not read, and every mistake has the same exit status.

use std::fs::File;
use std::process::Command;

use expect_test::expect;

use crate::command::Home;

/// A pipe into which nobody writes: opening it would wait.
fn pipe(home: &Home, name: &str) {
    assert!(Command::new("mkfifo").arg(home.path(name)).status().unwrap().success());
}

/// A sparse file of this size.
fn large(home: &Home, name: &str, num_bytes: u64) {
    File::create(home.path(name)).unwrap().set_len(num_bytes).unwrap();
}

#[test]
fn costs_files_that_never_end_are_not_read() {
    let home = Home::new();
    pipe(&home, "pipe");
    large(&home, "large", (64 << 20) + 1);
    home.refuses("simulate run.json --costs", expect![[r#"
        $ /dev/zero
        [2] error: /dev/zero: cannot read the costs file: it is a device, and only regular files of at most 67108864 bytes are read; name one that `pipezero profile` has written
        $ pipe
        [2] error: pipe: cannot read the costs file: it is a pipe, and only regular files of at most 67108864 bytes are read; name one that `pipezero profile` has written
        $ .
        [2] error: .: cannot read the costs file: it is a folder, and only regular files of at most 67108864 bytes are read; name one that `pipezero profile` has written
        $ large
        [2] error: large: cannot read the costs file: it has 67108865 bytes or more, and at most 67108864 are read; name one that `pipezero profile` has written
    "#]]);
    // Nor are they taken for costs files that could be replaced.
    let profile = home.run("profile run.json --out large --overwrite").failure(1);
    assert!(profile.contains("error: large is not a costs file"), "{profile}");
}

#[test]
fn traces_that_never_end_are_not_read() {
    let home = Home::new();
    home.run("train run.json --out out --trace").success();
    let name = "out/trace/step-000002.json";
    std::fs::remove_file(home.path(name)).unwrap();
    pipe(&home, name);
    home.refuses("compare", expect![[r#"
        $ out
        [2] error: out/trace/step-000002.json: cannot read the traced step: it is a pipe, and only regular files of at most 1090560 bytes are read; trace the run again
    "#]]);
    std::fs::remove_file(home.path(name)).unwrap();
    large(&home, name, 1 << 40);
    let said = home.run("compare out").failure(2);
    assert!(said.contains("it has 1099511627776 bytes or more, and at most "), "{said}");
    std::fs::remove_file(home.path("out/summary.json")).unwrap();
    pipe(&home, "out/summary.json");
    home.refuses("compare", expect![[r#"
        $ out
        [2] error: out/summary.json: it is a pipe, and only regular files of at most 67108864 bytes are read; it is damaged: train again
    "#]]);
}

#[test]
fn run_files_and_schedules_that_never_end_are_not_read() {
    let home = Home::new();
    pipe(&home, "pipe");
    large(&home, "large", (16 << 20) + 1);
    for (line, what, most) in [
        ("/dev/zero", "it is a device", "16777216"),
        ("pipe", "it is a pipe", "16777216"),
        ("large", "it has 16777217 bytes", "16777216"),
        (r#"run.json --set parallel.schedule={"file":"/dev/zero"}"#, "it is a device", "16777216"),
        (r#"run.json --set parallel.schedule={"file":"pipe"}"#, "it is a pipe", "16777216"),
    ] {
        let said = home.run(format!("check {line}")).failure(2).replace("\n", " ");
        assert!(said.contains(what) && said.contains(most), "{said}");
    }
}

/// 2: the input has to be corrected; 1: the input is valid. Neither leaves anything.
#[test]
fn every_mistake_in_the_input_has_the_same_status() {
    let home = Home::trained();
    home.write("bad.json", "{");
    home.write("short.txt", "abc");
    std::fs::create_dir(home.path("empty")).unwrap();
    let before = home.names();
    for given in [
        "train",
        "train bad.json",
        "train nowhere.json",
        "train run.json --set zero_optimization.stage=2",
        "train run.json --set parallel.pipelin=2",
        "train run.json --set data.text=short.txt",
        "train run.json --set data.text=nowhere.txt",
        "train run.json --trace --trace-steps 7..8 --out new",
        "plan run.json --set parallel.partition=type:(",
        "profile run.json --out costs.json --set data.text=short.txt",
        "profile run.json --out costs.json --steps 0",
        "simulate run.json --costs bad.json",
        "simulate run.json --costs nowhere.json",
        "simulate run.json --device b200",
        "compare out",
        "compare empty",
        "eval empty",
        "eval out --data short.txt",
    ] {
        home.run(given).failure(2);
    }
    for sound in [
        "train run.json --out out",
        "profile run.json --out run.json",
        "plan run.json --set memory=1KiB",
        "simulate run.json --json --out none/step.json",
        "profile run.json --out costs.json --steps 1000000000000",
    ] {
        home.run(sound).failure(1);
    }
    assert_eq!(home.names(), before);
    let help = home.run("--help").success();
    assert!(help.contains("Exit status: 0 for success; 2 for a mistake in the input"), "{help}");
}
