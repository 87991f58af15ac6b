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

/// The commands whose results bear a mark: each format of a run and of a schedule by itself.
fn marked() -> Vec<Vec<&'static str>> {
    let run = ["simulate", "run.json", "--device", "h100", "--format"];
    let what_if = ["simulate", "run.json", "--device", "h100", "--jitter=0.1", "--format"];
    let of_run = ["json", "svg", "chrome"].map(|format| [&run[..], &[format]].concat());
    let of_world = ["json", "svg", "chrome"].map(|format| [&what_if[..], &[format]].concat());
    let of_schedule = ["--json", "--format=svg"].map(|format| [&TIMES[..], &[format]].concat());
    of_run.into_iter().chain(of_world).chain(of_schedule).collect()
}

#[test]
fn a_result_is_replaced_if_asked() {
    let home = Home::new();
    for command in marked() {
        let expected = home.run(&command).success();
        for earlier in marked() {
            home.write("step", home.run(&earlier).success());
            let out = [&command[..], &["--out", "step", "--overwrite"]].concat();
            assert_eq!(home.run(&out).success(), "", "{out:?}");
            assert_eq!(home.read("step"), expected, "{out:?} over {earlier:?}");
        }
    }
    assert_eq!(home.names(), ["run.json", "step", "text.txt"]);
}

/// People paste tables into their notes, so a table is nobody's for certain.
#[test]
fn tables_are_written_and_not_replaced() {
    let home = Home::new();
    for command in [&["simulate", "run.json", "--device", "h100"][..], &TIMES] {
        let written = [command, &["--out", "step.txt"]].concat();
        assert_eq!(home.run(&written).success(), "");
        assert_eq!(home.read("step.txt"), home.run(command).success());
        home.refuses(&[&written[..], &["--overwrite"]].concat(), 1, expect![[r#"
            error: step.txt is no JSON, picture or trace of a simulation: --overwrite replaces what `pipezero simulate` has written as one, and nothing else; name another file with --out, or remove this one yourself
        "#]]);
        std::fs::remove_file(home.path("step.txt")).unwrap();
    }
}

/// The mark is the first thing that another program reads, in a place that the format has for it.
#[test]
fn results_say_what_wrote_them() {
    let home = Home::new();
    for command in marked() {
        let text = home.run(&command).success();
        if text.starts_with('<') {
            assert!(text.starts_with("<!-- pipezero simulate -->\n<svg "), "{command:?}");
            continue;
        }
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let writer = found.get("result").unwrap_or(&found["otherData"]["writer"]);
        assert_eq!(writer, "pipezero simulate", "{command:?}");
    }
}

/// What opens a file by its name would find another format damaged.
#[test]
fn names_that_say_another_format_are_refused() {
    let home = Home::new();
    let refuses = |arguments: &[&str], expected: Expect| {
        home.refuses(&[&TIMES[..], arguments].concat(), 2, expected);
    };
    refuses(
        &["--out", "step.svg"],
        expect![[r#"
        error: --out step.svg: a file of this name holds a picture, and tables would be in it; use --format svg, or name another file
    "#]],
    );
    refuses(
        &["--out", "step.SVG", "--json"],
        expect![[r#"
        error: --out step.SVG: a file of this name holds a picture, and JSON would be in it; use --format svg, or name another file
    "#]],
    );
    refuses(
        &["--out", "step.json"],
        expect![[r#"
        error: --out step.json: a file of this name holds JSON, and tables would be in it; use --format json or, for a trace of a run, --format chrome, or name another file
    "#]],
    );
    refuses(
        &["--out", "step.json", "--format", "svg"],
        expect![[r#"
        error: --out step.json: a file of this name holds JSON, and a picture would be in it; use --format json or, for a trace of a run, --format chrome, or name another file
    "#]],
    );
    let trace = ["simulate", "run.json", "--device", "h100", "--format", "chrome", "--out"];
    home.refuses(&[&trace[..], &["step.svg"]].concat(), 2, expect![[r#"
        error: --out step.svg: a file of this name holds a picture, and a trace would be in it; use --format svg, or name another file
    "#]]);
    home.run(&[&trace[..], &["step.json"]].concat()).success();
    home.run(&[&TIMES[..], &["--json", "--out", "figures.json"]].concat()).success();
    home.run(&[&TIMES[..], &["--format", "svg", "--out", "step.svg"]].concat()).success();
    assert_eq!(home.names(), ["figures.json", "run.json", "step.json", "step.svg", "text.txt"]);
}

#[track_caller]
fn refused(home: &Home, arguments: &[&str], expected: Expect) {
    home.refuses(&[&TIMES[..], &["--json"], arguments].concat(), 1, expected);
}

#[test]
fn nothing_else_is_replaced() {
    let home = Home::new();
    let exists = expect![[r#"
        error: run.json already exists: name another file with --out, or replace it with --overwrite
    "#]];
    refused(&home, &["--out", "run.json"], exists);
    let stranger = expect![[r#"
        error: run.json is no JSON, picture or trace of a simulation: --overwrite replaces what `pipezero simulate` has written as one, and nothing else; name another file with --out, or remove this one yourself
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

/// Pictures of other programs, traces and figures of other commands, costs, notes and lists look alike, and are somebody's
/// work.
#[test]
fn what_only_looks_alike_is_kept() {
    let home = Home::new();
    let table = home.run(&TIMES).success();
    let compared = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"writer\":\"pipezero\"},\"traceEvents\":[\n\
                    {\"name\":\"predicted rank 0\"}]}";
    for text in [
        "",
        "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>",
        "<?xml version=\"1.0\"?>\n<!-- pipezero simulate -->\n<svg></svg>",
        "{\"traceEvents\": []}",
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"name\":\"step 2 rank 0.0\"}]}",
        compared,
        "{\n  \"version\": 1,\n  \"units\": []\n}",
        "{\n  \"mine\": 1,\n  \"bubble_rate_longest_rank\": 2\n}",
        "{\n  \"mine\": 1,\n  \"result\": \"pipezero simulate\"\n}",
        "{\n  \"result\": \"pipezero",
        "all ranks 7",
        &format!("{table}\nwhat I make of it: a bubble too large"),
    ] {
        home.write("mine", text);
        let printed = home.run(&[&TIMES[..], &["--out", "mine", "--overwrite"]].concat()).failure(1);
        assert!(printed.starts_with("error: mine is no JSON, picture or trace of a simulation"), "{printed}");
        assert_eq!(home.read("mine"), text);
    }
}

/// The trace that `compare` leaves in a run directory is its own, predicted ranks or not.
#[test]
fn the_trace_of_a_comparison_is_kept() {
    let home = Home::new();
    home.run(&["train", "run.json", "--out", "traced", "--trace"]).success();
    home.run(&["compare", "traced"]).success();
    let run = ["simulate", "run.json", "--device", "h100", "--format", "chrome", "--overwrite", "--out"];
    for name in ["traced/compare.json", "traced/trace.json", "traced/summary.json", "traced/run.json"] {
        let before = home.read(name);
        let printed = home.run(&[&run[..], &[name]].concat()).failure(1);
        let expected = format!("error: {name} is no JSON, picture or trace of a simulation");
        assert!(printed.starts_with(&expected), "{printed}");
        assert_eq!(home.read(name), before);
    }
}
