//! `simulate --out`: a file that is written when it is complete, and never over a file of another program.

use expect_test::expect;

use crate::command::Home;

/// A schedule without a model.
const SCHEDULE: &str =
    "simulate --schedule 1f1b --ranks=2 --micro-batches=2 --forward 1 --backward-input 1 --backward-weight 1";
const RUN: &str = "simulate run.json --device h100";

/// The commands whose results bear a mark: each format of a run, of a what-if and of a schedule by itself.
fn marked() -> Vec<String> {
    let formats = ["json", "svg", "chrome"].iter();
    let of_runs =
        formats.flat_map(|format| ["", "--jitter=0.1"].map(|what| format!("{RUN} {what} --format {format}")));
    of_runs.chain(["json", "svg"].map(|format| format!("{SCHEDULE} --format {format}"))).collect()
}

#[test]
fn a_result_is_replaced_if_asked() {
    let home = Home::new();
    for command in marked() {
        let expected = home.run(&command).success();
        for earlier in marked() {
            home.write("step", home.run(&earlier).success());
            let out = format!("{command} --out step --overwrite");
            assert_eq!(home.run(&out).success(), "", "{out}");
            assert_eq!(home.read("step"), expected, "{out} over {earlier}");
        }
    }
    assert_eq!(home.names(), ["run.json", "step", "text.txt"]);
}

/// People paste tables into their notes, so a table is nobody's for certain.
#[test]
fn tables_are_written_and_not_replaced() {
    let home = Home::new();
    for command in [RUN, SCHEDULE] {
        let written = format!("{command} --out step.txt");
        assert_eq!(home.run(&written).success(), "");
        assert_eq!(home.read("step.txt"), home.run(command).success());
        let error = home.run(written + " --overwrite").failure(1);
        assert_eq!(error, format!("error: {}\n", unknown_file("step.txt")));
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
            assert!(text.starts_with("<!-- pipezero simulate -->\n<svg "), "{command}");
            continue;
        }
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let writer = found.get("result").unwrap_or(&found["otherData"]["writer"]);
        assert_eq!(writer, "pipezero simulate", "{command}");
    }
}

/// What opens a file by its name would find another format damaged.
#[test]
fn names_that_say_another_format_are_refused() {
    let home = Home::new();
    home.refuses(SCHEDULE, expect![[r#"
        $ --out step.svg
        [2] error: --out step.svg: a file of this name holds a picture, but tables would be in it; use --format svg, or name another file
        $ --out step.SVG --json
        [2] error: --out step.SVG: a file of this name holds a picture, but JSON would be in it; use --format svg, or name another file
        $ --out step.json
        [2] error: --out step.json: a file of this name holds JSON, but tables would be in it; use --format json or, for a trace of a run, --format chrome, or name another file
        $ --out step.json --format svg
        [2] error: --out step.json: a file of this name holds JSON, but a picture would be in it; use --format json or, for a trace of a run, --format chrome, or name another file
    "#]]);
    home.refuses(RUN, expect![[r#"
        $ --format chrome --out step.svg
        [2] error: --out step.svg: a file of this name holds a picture, but a trace would be in it; use --format svg, or name another file
    "#]]);
    home.run(format!("{RUN} --format chrome --out step.json")).success();
    home.run(format!("{SCHEDULE} --json --out figures.json")).success();
    home.run(format!("{SCHEDULE} --format svg --out step.svg")).success();
    assert_eq!(home.names(), ["figures.json", "run.json", "step.json", "step.svg", "text.txt"]);
}

#[test]
fn nothing_else_is_replaced() {
    let home = Home::new();
    let before = home.read("run.json");
    std::fs::create_dir(home.path("folder")).unwrap();
    home.refuses(&format!("{SCHEDULE} --json --out"), expect![[r#"
        $ run.json
        [1] error: run.json already exists: name another file with --out, or replace it with --overwrite
        $ run.json --overwrite
        [1] error: run.json is not a JSON result, picture or trace of a simulation: --overwrite only replaces one that `pipezero simulate` wrote; name another file with --out, or remove this one yourself
        $ folder --overwrite
        [1] error: folder is a folder: name a file with --out, such as folder/step.json
        $ none/step.json
        [1] error: cannot write none/step.json: No such file or directory (os error 2); name a file with --out in a folder that can be written to
        $ /dev/null --overwrite
        [1] error: cannot write /dev/null: it is a device, and only a regular file can be replaced; name a file with --out in a folder that can be written to
    "#]]);
    assert_eq!(home.read("run.json"), before);
    let alone = home.run(format!("{SCHEDULE} --overwrite")).failure(2);
    assert!(alone.contains("--out <FILE>"), "{alone}");
    assert_eq!(home.names(), ["folder", "run.json", "text.txt"]);
}

/// The error for a file that no simulation wrote.
fn unknown_file(name: &str) -> String {
    format!(
        "{name} is not a JSON result, picture or trace of a simulation: --overwrite only replaces one that `pipezero \
         simulate` wrote; name another file with --out, or remove this one yourself"
    )
}

/// Pictures of other programs, traces and figures of other commands, costs, notes and lists look alike, and are somebody's
/// work.
#[test]
fn what_only_looks_alike_is_kept() {
    let home = Home::new();
    let table = home.run(SCHEDULE).success();
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
        let error = home.run(format!("{SCHEDULE} --out mine --overwrite")).failure(1);
        assert_eq!(error, format!("error: {}\n", unknown_file("mine")));
        assert_eq!(home.read("mine"), text);
    }
}

/// The trace that `compare` leaves in a run directory is its own, predicted ranks or not.
#[test]
fn the_trace_of_a_comparison_is_kept() {
    let home = Home::new();
    home.run("train run.json --out traced --trace").success();
    home.run("compare traced").success();
    for name in ["traced/compare.json", "traced/trace.json", "traced/summary.json", "traced/run.json"] {
        let before = home.read(name);
        let error = home.run(format!("{RUN} --format chrome --overwrite --out {name}")).failure(1);
        assert!(error.ends_with(&format!("error: {}\n", unknown_file(name))), "{error}");
        assert_eq!(home.read(name), before);
    }
}
