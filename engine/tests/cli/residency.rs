//! What stays gathered: the table of every residency, `"auto"`, and parameters that persist.

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::command::Home;

/// Equal shares, so that each rank has three units.
const PLAN: &str = "plan run.json --set parallel.partition=uniform";

/// A threshold of parameters that persist.
const THRESHOLD: &str = "--set zero_optimization.stage3_param_persistence_threshold";

/// The lines of stderr with these words.
fn diagnostics(stderr: &str, words: &str) -> String {
    stderr.lines().filter(|line| line.contains(words)).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_residency_has_its_price() {
    let home = Home::new();
    let check = |changes: &str, expected: Expect| {
        let text = home.run(format!("{PLAN} {changes}")).success();
        let table = text.split("\n\n").find(|part| part.starts_with("resident_units")).unwrap();
        expected.assert_eq(&format!("{table}\n"));
    };
    // With U = 3 units and m = 2 micro-batches: 2 m U of them strict, c + 2 m (U - c) with c resident, U with all.
    check(
        "",
        expect![[r#"
            resident_units    all-gathers  on one rank  bytes sent      memory
            strict                     22           12   83.75 KiB  269.12 KiB
            2                          12            6   42.75 KiB  269.12 KiB
            all                         6            3   21.38 KiB  279.88 KiB
            level (this run)           12            6   42.75 KiB  269.12 KiB
            all-gathers: of a step on all pipeline ranks; on one rank, the bytes sent in them and memory: of the rank that has most
        "#]],
    );
    // The run's own number is in the table, however large it is.
    check(
        "--set zero_optimization.resident_units=7",
        expect![[r#"
            resident_units  all-gathers  on one rank  bytes sent      memory
            strict                   22           12   83.75 KiB  269.12 KiB
            2                        12            6   42.75 KiB  269.12 KiB
            7 (this run)              6            3   21.38 KiB  279.88 KiB
            all                       6            3   21.38 KiB  279.88 KiB
            level                    12            6   42.75 KiB  269.12 KiB
            all-gathers: of a step on all pipeline ranks; on one rank, the bytes sent in them and memory: of the rank that has most
        "#]],
    );
    let strict = "--set zero_optimization.resident_units=strict --set zero_optimization.prefetch_units=0";
    check(
        &format!("{strict} --set memory=275000"),
        expect![[r#"
            resident_units          all-gathers  on one rank  bytes sent      memory
            strict (this run)                22           12   83.75 KiB  253.12 KiB
            1                                18            9   63.06 KiB  253.12 KiB
            2                                10            6   40.31 KiB  267.00 KiB
            all (exceeds `memory`)            6            3   21.38 KiB  279.88 KiB
            level                            18            9   63.06 KiB  253.12 KiB
            all-gathers: of a step on all pipeline ranks; on one rank, the bytes sent in them and memory: of the rank that has most
        "#]],
    );
}

#[test]
fn residencies_are_compared_on_the_split_that_runs() {
    // With so much memory the balanced split is another than without, and with `all` there would be none that fits.
    let plan = Home::new().json("plan run.json --json --set memory=280000");
    let rows = plan["residencies"].as_array().unwrap();
    let chosen: Vec<&Value> = rows.iter().filter(|row| row["is_chosen"] == true).collect();
    assert_eq!(chosen.len(), 1);
    for (figure, of_rank) in [("peak_bytes", "/memory/peak"), ("num_gathers", "/traffic/all_gather/count")] {
        let ranks = plan["ranks"].as_array().unwrap().iter();
        let most = ranks.map(|rank| rank.pointer(of_rank).unwrap().as_u64().unwrap()).max();
        assert_eq!(chosen[0][figure].as_u64(), most, "{figure}");
    }
    // More of what stays never means more gathers; the last row is `level`, the run's own.
    let (level, rows) = rows.split_last().unwrap();
    assert_eq!(level["resident_units"], "level");
    let counts: Vec<u64> = rows.iter().map(|row| row["num_gathers"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b) && counts.first() > counts.last(), "{counts:?}");
}

#[test]
fn without_gathers_there_is_no_table_of_them() {
    let home = Home::new();
    for set in ["zero_optimization.stage=1", r#"parallel={"pipeline":2,"data":1}"#] {
        let steps = "--set gradient_accumulation_steps=4 --set train_batch_size=16";
        let plan = format!("plan run.json --set {set} {steps}");
        assert!(!home.run(&plan).success().contains("resident_units"), "{set}");
        assert_eq!(home.json(plan + " --json")["residencies"], Value::Array(Vec::new()), "{set}");
    }
}

/// Each row of the table is a plan of its own, so a program of hundreds of thousands of instructions has none.
#[test]
fn a_large_program_has_no_table_and_a_line_says_why() {
    let steps = "--set gradient_accumulation_steps=6000 --set train_batch_size=24000";
    let printed = Home::new().run(format!("plan run.json --json {steps}"));
    expect!["residencies are not compared: the program has 180022 instructions, more than 150000"]
        .assert_eq(printed.stderr.lines().last().unwrap());
    let plan: Value = serde_json::from_str(&printed.success()).unwrap();
    assert_eq!(plan["residencies"], Value::Null);
}

/// Each rank has three units: a fourth is in no buffer, and a third beside the one in use in none either.
#[test]
fn more_resident_units_than_exist_is_a_diagnostic() {
    let home = Home::new();
    let of = |zero: &str| {
        let printed = home.run(format!("{PLAN} --set zero_optimization{zero}"));
        assert_eq!(printed.status, Some(0));
        diagnostics(&printed.stderr, "gathers more than")
    };
    expect![[r#"--set zero_optimization.resident_units=4: hint: `zero_optimization.resident_units`: 4 units, but no rank gathers more than 3 units: a larger number has no effect, and "all" means the same"#]].assert_eq(&of(".resident_units=4"));
    expect![[r#"--set zero_optimization={"stage":3,"prefetch_u...: hint: `zero_optimization.prefetch_units`: 3 units ahead, but no rank gathers more than 3 units, the one in use included; use 2"#]].assert_eq(&of(r#"={"stage":3,"prefetch_units":3}"#));
    // As many as there are, and nothing that is gathered, give no diagnostic.
    for within in [".resident_units=3", r#"={"stage":3,"prefetch_units":2}"#, ".stage=1"] {
        assert_eq!(of(within), "", "{within}");
    }
}

#[test]
fn every_command_reports_what_auto_resolved_to() {
    let home = Home::with(&[
        ("{ \"stage\": 3 }", "{ \"stage\": 3, \"resident_units\": \"auto\" }"),
        ("\"seed\": 3", "\"seed\": 3, \"memory\": 280000"),
    ]);
    for command in ["plan run.json", "check run.json", "show run.json", "train run.json --out out"] {
        let printed = home.run(format!("{command} --set parallel.partition=uniform"));
        expect![[r#"run.json:12:56: hint: `zero_optimization.resident_units`: "auto" is [2, 3] here, the most that fits: the fullest rank needs 269.12 KiB of the 273.44 KiB that `memory` gives it"#]].assert_eq(&diagnostics(&printed.stderr, "\"auto\""));
        printed.success();
    }
    let run = home.json("check run.json --json --set parallel.partition=uniform");
    assert_eq!(run["zero"]["resident_units"], serde_json::json!([2, 3]));
    // More memory keeps more; what is kept is a run that is written out.
    let roomy = home.run("plan run.json --set memory=1MiB").stderr;
    assert!(roomy.contains("\"auto\" is all here"), "{roomy}");
    // One data rank alone could not train within that memory, but to write text it need not train.
    let alone = home.run(format!("{PLAN} --set parallel.data=1 --set train_batch_size=4"));
    assert_eq!(alone.status, Some(1));
    let mut generate = home.command("generate out --max-tokens 1");
    let written = generate.args(["--prompt", "the "]).output().unwrap();
    assert!(written.status.success() && written.stdout.len() == 6, "{written:?}");
}

#[test]
fn persistent_parameters_are_reported_by_stage() {
    let home = Home::new();
    let stages = |threshold: u64| {
        let train = format!("train run.json --out out --overwrite {THRESHOLD}={threshold}");
        diagnostics(&home.run(train).stderr, "parameters persist, ")
    };
    expect![[r#"
        stage 0: 37 of 38 parameters persist, 10096 elements
        stage 1: 14 of 15 parameters persist, 3312 elements"#]]
    .assert_eq(&stages(2000));
    let plan = home.run(format!("plan run.json {THRESHOLD}=2000")).success();
    expect![[r#"
        pipeline rank  parts  units  gathered at once                   stay gathered  parameters  in flight     first     last
        0                  8      4                 1  37 parameters, 10.1 k elements      14.2 k          2       wte  h.2.mlp
        1                  4      2                 1   14 parameters, 3.3 k elements       7.4 k          1  h.3.attn  lm_head"#]]
    .assert_eq(plan.split("\n\n").nth(1).unwrap());
    // A threshold below every parameter keeps nothing, which is said too.
    expect![[r#"
        stage 0: 0 of 38 parameters persist, 0 elements
        stage 1: 0 of 15 parameters persist, 0 elements"#]]
    .assert_eq(&stages(10));
    assert!(!home.run(format!("plan run.json {THRESHOLD}=10")).success().contains("stay gathered"));
}

/// Either threshold may be what is too low; which would do is said.
#[test]
fn a_threshold_below_every_parameter_is_a_warning_with_the_least_that_is_not() {
    let home = Home::new();
    let model = format!("{THRESHOLD}=1000000 --set zero_optimization.stage3_model_persistence_threshold");
    for (key, low, expected) in [
        (
            THRESHOLD,
            10,
            expect![
                "--set zero_optimization.stage3_param_persisten...: warning: `zero_optimization.stage3_param_persistence_threshold`: no parameter persists: every one has more than 10 elements, the smallest, h.0.ln_1.weight, 16; use 16 or more, or 0"
            ],
        ),
        (
            &model,
            10,
            expect![
                "--set zero_optimization.stage3_model_persisten...: warning: `zero_optimization.stage3_model_persistence_threshold`: no parameter persists: persistent parameters may have 10 elements together, and the smallest, h.0.ln_1.weight, has 16; use 16 or more, or `stage3_param_persistence_threshold` 0"
            ],
        ),
    ] {
        let of = |threshold: u64| {
            let printed = home.run(format!("plan run.json {key}={threshold}"));
            (diagnostics(&printed.stderr, "no parameter persists"), printed.stdout.contains("stay gathered"))
        };
        let (diagnostic, persists) = of(low);
        expected.assert_eq(&diagnostic);
        assert!(!persists);
        let train = home.run(format!("train run.json --out out --overwrite {key}={low}"));
        assert_eq!(train.stderr.matches(&diagnostic).count(), 1, "{}", train.stderr);
        let least: u64 =
            diagnostic.rsplit_once("; use ").unwrap().1.split_once(' ').unwrap().0.parse().unwrap();
        assert!(!of(least - 1).1);
        // With the number that is named a parameter persists, and nothing is warned of.
        assert_eq!(of(least), (String::new(), true));
    }
    // Nor is it where none was asked for.
    let none = home.run(format!("plan run.json {THRESHOLD}=0"));
    assert!(!none.stderr.contains("no parameter persists") && !none.stdout.contains("stay gathered"));
}

#[test]
fn nothing_left_to_shard_is_refused_in_a_pipeline_and_a_warning_without_one() {
    let home = Home::new();
    let in_a_pipeline = home.run(format!("plan run.json {THRESHOLD}=4096")).failure(2);
    assert!(in_a_pipeline.contains("which is ZeRO-2"), "{in_a_pipeline}");
    let by_list = home.run("plan run.json --set zero_optimization.parameters=[\"persistent:.\"]").failure(2);
    assert!(by_list.contains("which is ZeRO-2"), "{by_list}");
    let last = home.run(format!("plan run.json {THRESHOLD}=4096 --set zero_optimization.reduce=last"));
    last.success();
    for keeps in
        [format!("{THRESHOLD}=4096"), "--set zero_optimization.parameters=[\"persistent:.\"]".to_owned()]
    {
        let without =
            home.run(format!("plan run.json --set parallel.pipeline=1 --set parallel.data=4 {keeps}"));
        assert!(without.stderr.contains("no weights left to shard"), "{}", without.stderr);
        without.success();
    }
    // One element fewer, and the embedding is sharded.
    let printed = home.run(format!("plan run.json {THRESHOLD}=4095"));
    assert!(!printed.stderr.contains("which is ZeRO-2"), "{}", printed.stderr);
    printed.success();
}

#[test]
fn entries_that_match_nothing_are_said_together_each_at_its_place() {
    let home = Home::new();
    let list = "[\"whole:x1\",\"persistent:bias\",\"sharded:x2\"]";
    let error = home.run(format!("check run.json --set zero_optimization.parameters={list}")).failure(2);
    assert!(error.contains("2 mistakes"), "{error}");
    for (place, entry) in [(0, "whole:x1"), (2, "sharded:x2")] {
        let said = format!(
            "`zero_optimization.parameters[{place}]` is \"{entry}\", but no layer and no parameter has a name like that"
        );
        assert!(error.contains(&said), "{error}");
    }
}
