//! `simulate --out`: a file that is written when all of it is there, and never over somebody else's.

use expect_test::{Expect, expect};

use crate::command::Home;

const TIMES: [&str; 11] = [
    "simulate",
    "--schedule",
    "1f1b",
    "--ranks=2",
    "--micro-batches=2",
    "--forward",
    "1",
    "--backward-input",
    "1",
    "--backward-weight",
    "1",
];

/// The commands that write each format.
fn commands() -> Vec<Vec<&'static str>> {
    let run = ["simulate", "run.json", "--device", "h100", "--format"];
    let mut commands: Vec<Vec<&str>> =
        ["text", "json", "svg", "chrome"].map(|format| [&run[..], &[format]].concat()).into();
    commands.push(TIMES.to_vec());
    commands.extend(["--json", "--format=svg", "--explain"].map(|of| [&TIMES[..], &[of]].concat()));
    // A table whose columns are narrower, and one whose are wider.
    commands.push(TIMES.iter().map(|of| if *of == "--ranks=2" { "--ranks=1" } else { of }).collect());
    commands.push([&TIMES[..], &["--latency", "100000.125"]].concat());
    commands
}

#[test]
fn a_result_is_replaced_if_asked() {
    let home = Home::new();
    for command in commands() {
        let expected = home.run(&command).success();
        for earlier in commands() {
            home.write("step", home.run(&earlier).success());
            let out = [&command[..], &["--out", "step", "--overwrite"]].concat();
            assert_eq!(home.run(&out).success(), "", "{out:?}");
            assert_eq!(home.read("step"), expected, "{out:?} over {earlier:?}");
        }
    }
    assert_eq!(home.names(), ["run.json", "step", "text.txt"]);
}

#[track_caller]
fn refused(home: &Home, arguments: &[&str], expected: Expect) {
    home.refuses(&[&TIMES[..], arguments].concat(), 1, expected);
}

#[test]
fn nothing_else_is_replaced() {
    let home = Home::new();
    let exists = expect![[r#"
        error: run.json already exists: name another file with --out, or replace it with --overwrite
    "#]];
    refused(&home, &["--out", "run.json"], exists);
    let stranger = expect![[r#"
        error: run.json is no result of a simulation: --overwrite replaces what `pipezero simulate` has written, and nothing else; name another file with --out
    "#]];
    let before = home.read("run.json");
    refused(&home, &["--out", "run.json", "--overwrite"], stranger);
    assert_eq!(home.read("run.json"), before);
    std::fs::create_dir(home.path("folder")).unwrap();
    let folder = expect![[r#"
        error: folder is a folder: name a file with --out, such as folder/step.json
    "#]];
    refused(&home, &["--out", "folder", "--overwrite"], folder);
    let nowhere = expect![[r#"
        error: cannot write none/step.json: No such file or directory (os error 2); name a file with --out in a folder that can be written to
    "#]];
    refused(&home, &["--out", "none/step.json"], nowhere);
    let device = expect![[r#"
        error: cannot write /dev/null: it is no regular file, and only such can be replaced; name a file with --out in a folder that can be written to
    "#]];
    refused(&home, &["--out", "/dev/null", "--overwrite"], device);
    let alone = home.run(&[&TIMES[..], &["--overwrite"]].concat()).failure(2);
    assert!(alone.contains("--out <FILE>"), "{alone}");
    assert_eq!(home.names(), ["folder", "run.json", "text.txt"]);
}

/// Pictures of other programs, traces of what was measured, costs and lists look alike, and are somebody's work.
#[test]
fn what_only_looks_alike_is_kept() {
    let home = Home::new();
    for text in [
        "",
        "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>",
        "{\"traceEvents\": []}",
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"step 2 rank 0.0\"}]}",
        "{\n  \"version\": 1,\n  \"units\": []\n}",
        "all ranks 7",
    ] {
        home.write("mine", text);
        let printed = home.run(&[&TIMES[..], &["--out", "mine", "--overwrite"]].concat()).failure(1);
        assert!(printed.starts_with("error: mine is no result of a simulation"), "{printed}");
        assert_eq!(home.read("mine"), text);
    }
}
