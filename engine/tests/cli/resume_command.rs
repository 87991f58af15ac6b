//! `pipezero resume`: what it takes from a run directory, and where there is none.

use std::fs;

use expect_test::expect;

use crate::command::Home;
use crate::resume_changes::{copy, lines};

/// With what `--set` said when it was started, which the command does not repeat.
#[test]
fn a_run_directory_goes_on_as_it_was_started() {
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    let set = "--set seed=9 --set optimizer.params.betas=[0.8,0.9] --set parallel.pipeline=1";
    home.run(format!("train run.json --out out {set}")).success();
    copy(&home, "out", "copy");
    home.run(format!("train run.json --out copy {set} --set steps=5 --resume")).success();
    // It needs neither the file nor what else was named.
    fs::remove_file(home.path("run.json")).unwrap();
    let resumed = home.run("resume out --set steps=5");
    expect![[r#"
        since the checkpoint: steps 3 -> 5
    "#]]
    .assert_eq(&lines(&resumed.stderr));
    resumed.success();
    let weights = |run: &str| fs::read(home.path(&format!("{run}/weights.safetensors"))).unwrap();
    assert!(weights("out") == weights("copy"));
    let changed = home.run("resume out --set steps=6 --set seed=1 --resume");
    expect![[r#"
        warning: seed 9 -> 1 since the checkpoint: the order of samples is another one from here on: within this epoch some come twice and others never
        since the checkpoint: steps 5 -> 6
    "#]].assert_eq(&lines(&changed.stderr));
    changed.success();
    fs::create_dir(home.path("several")).unwrap();
    copy(&home, "copy", "several/left");
    for folder in ["empty", "log", "unreadable", "older"] {
        fs::create_dir(home.path(folder)).unwrap();
    }
    home.write("log/job.log", "somebody's");
    home.write("unreadable/run.json", "{\"model\": ");
    home.write(
        "older/run.json",
        home.read("out/run.json").replace("\"seed\"", "\"a_key_of_another_version\""),
    );
    for (target, link) in [("nowhere", "dangling"), ("out", "link")] {
        std::os::unix::fs::symlink(target, home.path(link)).unwrap();
    }
    home.run("resume link --set steps=6 --set seed=1").success();
    home.refuses(
        "resume",
        expect![[r#"
            $ nowhere
            [2] error: nowhere has no run.json, so it is no run directory: name the folder that `train` wrote, or write pipezero train RUN.json --out nowhere --resume
            $ empty
            [2] error: empty has no run.json, so it is no run directory: name the folder that `train` wrote, or write pipezero train RUN.json --out empty --resume
            $ log
            [2] error: log has no run.json, so it is no run directory: name the folder that `train` wrote
            $ dangling
            [2] error: dangling has no run.json, so it is no run directory: name the folder that `train` wrote
            $ text.txt
            [2] error: text.txt is a file, and a run directory is a folder: name the one that `train` wrote, or write pipezero train RUN.json --out DIR --resume
            $ out/checkpoints
            [2] error: out/checkpoints holds checkpoints of the run in out: write pipezero resume out, with --step N for another one than the newest
            $ out/checkpoints/step-00000006
            [2] error: out/checkpoints/step-00000006 holds checkpoints of the run in out: write pipezero resume out, with --step N for another one than the newest
            $ unreadable
            [2] error: not a valid run, 1 mistake:
              x this object is never closed: the text ends before its `}`
               ,-[unreadable/run.json:1:1]
             1 | {"model":
               : ^
               `----
            $ older
            [2] error: not a valid run, 1 mistake:
              x unknown key `a_key_of_another_version`
                ,-[older/run.json:42:3]
             41 |   "steps": 6,
             42 |   "a_key_of_another_version": 1
                :   ^^^^^^^^^^^^^^^^^^^^^^^^^^
             43 | }
                `----
              help: remove it; docs/run-file.md lists every key
            $ several
            [2] error: several is the folder of several engines: go on with all of them with pipezero train MASTER.json --out several --resume, or with one with pipezero resume several/ENGINE
            $ out --step 99
            [2] error: out has no checkpoint of step 99, but of 5, 6; name a run directory that has one, or its folder
            $ out --set seed=x
            [2] error: not a valid run, 1 mistake:
              x `seed` must be a whole number, but is the string "x"
               ,-[--set:1:6]
             1 | seed=x
               :      ^
               `----
              help: write a value such as 0
            $ out --overwrite
            [2] error: unexpected argument '--overwrite' found

              tip: to pass '--overwrite' as a value, use '-- --overwrite'

            Usage: pipezero resume <DIR>
        "#]],
    );
}
