//! What stays gathered: the table of every residency, `"auto"`, and units that persist.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;

/// Equal shares, so that each rank has three units.
const UNIFORM: &str = "parallel.partition=uniform";

/// The last table of `plan`.
fn residencies(home: &Home, set: &[&str]) -> String {
    let mut args = vec!["plan", "run.json"];
    args.extend(set.iter().flat_map(|change| ["--set", change]));
    let text = home.run(&args).success();
    text.split("\n\n").last().unwrap().to_owned()
}

#[test]
fn every_residency_has_its_price() {
    let home = Home::new();
    // With U = 3 units and m = 2 micro-batches: 2 m U of them strict, c + 2 m (U - c) with c resident, U with all.
    expect![[r#"
        resident_units  most all-gathers  most bytes sent in them  most memory
        strict                        12                83.75 KiB   269.12 KiB
        2                              6                42.75 KiB   269.12 KiB  <- this run
        all                            3                21.38 KiB   279.88 KiB
        each figure is of the rank that has most of it, in a step; these may be different ranks
    "#]]
    .assert_eq(&residencies(&home, &[UNIFORM]));
    // The run's own number is in the table, however large it is.
    expect![[r#"
        resident_units  most all-gathers  most bytes sent in them  most memory
        strict                        12                83.75 KiB   269.12 KiB
        2                              6                42.75 KiB   269.12 KiB
        7                              3                21.38 KiB   279.88 KiB  <- this run
        all                            3                21.38 KiB   279.88 KiB
        each figure is of the rank that has most of it, in a step; these may be different ranks
    "#]]
    .assert_eq(&residencies(&home, &[UNIFORM, "zero_optimization.resident_units=7"]));
    expect![[r#"
        resident_units  most all-gathers  most bytes sent in them  most memory
        strict                        12                83.75 KiB   253.12 KiB       <- this run
        1                              9                63.06 KiB   253.12 KiB
        2                              6                40.31 KiB   267.00 KiB
        all                            3                21.38 KiB   279.88 KiB  exceeds `memory`
        each figure is of the rank that has most of it, in a step; these may be different ranks
    "#]]
    .assert_eq(&residencies(
        &home,
        &[
            UNIFORM,
            "zero_optimization.resident_units=strict",
            "zero_optimization.prefetch_units=0",
            "memory=275000",
        ],
    ));
}

#[test]
fn residencies_are_compared_on_the_split_that_runs() {
    let home = Home::new();
    // With so much memory the balanced split is another than without, and with `all` there would be none that fits.
    let with = ["plan", "run.json", "--json", "--set", "memory=280000"];
    let plan: Value = serde_json::from_str(&home.run(&with).success()).unwrap();
    let rows = plan["residencies"].as_array().unwrap();
    let chosen: Vec<&Value> = rows.iter().filter(|row| row["is_chosen"] == true).collect();
    assert_eq!(chosen.len(), 1);
    let peaks = plan["ranks"].as_array().unwrap().iter().map(|rank| rank["memory"]["peak"].as_u64());
    assert_eq!(chosen[0]["peak_bytes"].as_u64(), peaks.max().unwrap());
    let gathers =
        plan["ranks"].as_array().unwrap().iter().map(|rank| rank["traffic"]["all_gather"]["count"].as_u64());
    assert_eq!(chosen[0]["num_gathers"].as_u64(), gathers.max().unwrap());
    // More of what stays never means more gathers.
    let counts: Vec<u64> = rows.iter().map(|row| row["num_gathers"].as_u64().unwrap()).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b) && counts.first() > counts.last(), "{counts:?}");
}

#[test]
fn without_gathers_there_is_no_table_of_them() {
    let home = Home::new();
    for set in ["zero_optimization.stage=1", "parallel={\"pipeline\": 2, \"data\": 1}"] {
        let args = ["plan", "run.json", "--set", set, "--set", "gradient_accumulation_steps=4"];
        let args = [&args[..], &["--set", "train_batch_size=16"]].concat();
        assert!(!home.run(&args).success().contains("resident_units"), "{set}");
        let json = home.run(&[&args[..], &["--json"]].concat()).success();
        let plan: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(plan["residencies"], Value::Array(Vec::new()), "{set}");
    }
}

/// Each row of the table is a plan of its own, so a program of hundreds of thousands of instructions has none.
#[test]
fn a_large_program_has_no_table_and_a_line_says_why() {
    let home = Home::new();
    let args = [
        "plan",
        "run.json",
        "--json",
        "--set",
        "gradient_accumulation_steps=20000",
        "--set",
        "train_batch_size=80000",
    ];
    let printed = home.run(&args);
    let line = printed.stderr.lines().last().unwrap().to_owned();
    let plan: Value = serde_json::from_str(&printed.success()).unwrap();
    assert_eq!(plan["residencies"], Value::Null);
    expect!["residencies are not compared: the program has 600022 instructions, more than 500000"]
        .assert_eq(&line);
}

/// Each rank has three units: a fourth is in no buffer, and a third beside the one in use in none either.
#[test]
fn more_resident_units_than_exist_is_a_remark() {
    let home = Home::new();
    let of = |set: &str| {
        let printed = home.run(&["plan", "run.json", "--set", UNIFORM, "--set", set]);
        let lines: Vec<String> = printed
            .stderr
            .lines()
            .filter(|line| line.contains("gathers more than"))
            .map(str::to_owned)
            .collect();
        printed.success();
        lines.join("\n")
    };
    expect![[r#"--set zero_optimization.resident_units=4: hint: `zero_optimization.resident_units`: 4 units, but no rank gathers more than 3 units: what is beyond that changes nothing, and "all" says the same"#]].assert_eq(&of("zero_optimization.resident_units=4"));
    expect![[r#"--set zero_optimization={"stage": 3, "prefetch...: hint: `zero_optimization.prefetch_units`: 3 units ahead, but no rank gathers more than 3 units: beside the one in use at most 2 can be gathered ahead"#]].assert_eq(&of("zero_optimization={\"stage\": 3, \"prefetch_units\": 3}"));
    // As many as there are, and nothing that is gathered, are no remark.
    for within in [
        "zero_optimization.resident_units=3",
        "zero_optimization={\"stage\": 3, \"prefetch_units\": 2}",
        "zero_optimization.stage=1",
    ] {
        assert_eq!(of(within), "", "{within}");
    }
}

#[test]
fn every_command_reports_what_auto_resolved_to() {
    let home = Home::with(&[
        ("{ \"stage\": 3 }", "{ \"stage\": 3, \"resident_units\": \"auto\" }"),
        ("\"seed\": 3", "\"seed\": 3, \"memory\": 280000"),
    ]);
    let hints = |args: &[&str]| {
        let printed = home.run(args);
        let hint = printed.stderr.lines().find(|line| line.contains("\"auto\"")).map(str::to_owned);
        printed.success();
        hint.expect("a hint")
    };
    let set = ["--set", UNIFORM];
    let hint = hints(&[&["plan", "run.json"], &set[..]].concat());
    expect![[r#"run.json:12:56: hint: `zero_optimization.resident_units`: "auto" is 2 here, the most that fits: the fullest rank needs 269.12 KiB of the 273.44 KiB that `memory` gives it"#]].assert_eq(&hint);
    assert_eq!(hint, hints(&[&["check", "run.json"], &set[..]].concat()));
    assert_eq!(hint, hints(&[&["show", "run.json"], &set[..]].concat()));
    assert_eq!(hint, hints(&[&["train", "run.json", "--out", "out"], &set[..]].concat()));
    let checked = home.run(&[&["check", "run.json"], &set[..]].concat()).success();
    let run: Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(run["zero"]["resident_units"], serde_json::json!({ "units": 2 }));
    // More memory keeps more; what is kept is a run that is written out.
    let roomy = hints(&["plan", "run.json", "--set", "memory=1MiB"]);
    assert!(roomy.contains("\"auto\" is all here"), "{roomy}");
    // One data rank alone could not train within that memory, but to write text it need not train.
    let alone =
        ["plan", "run.json", "--set", UNIFORM, "--set", "parallel.data=1", "--set", "train_batch_size=4"];
    assert_eq!(home.run(&alone).status, Some(1));
    let written =
        home.command(&["generate", "out", "--prompt", "the ", "--max-tokens", "1"]).output().unwrap();
    assert!(written.status.success() && written.stdout.len() == 6, "{written:?}");
}

#[test]
fn persistent_units_are_reported_by_stage() {
    let home = Home::new();
    let threshold = "zero_optimization.stage3_param_persistence_threshold=2000";
    let train = home.run(&["train", "run.json", "--out", "out", "--set", threshold]);
    let lines: Vec<&str> = train.stderr.lines().filter(|line| line.starts_with("stage ")).collect();
    expect![[r#"
        stage 0: 3 of 4 units persist, 10096 elements
        stage 1: 1 of 2 units persist, 3312 elements"#]]
    .assert_eq(&lines.join("\n"));
    let plan = home.run(&["plan", "run.json", "--set", threshold]).success();
    expect![[r#"
        pipeline rank  parts  units             stay gathered  parameters  in flight     first     last
        0                  8      4  3 units, 10.1 k elements      14.2 k          2       wte  h.2.mlp
        1                  4      2    1 unit, 3.3 k elements       7.4 k          1  h.3.attn  lm_head"#]]
    .assert_eq(plan.split("\n\n").nth(1).unwrap());
    // A threshold below every unit's largest parameter keeps nothing, which is said too.
    let low = "zero_optimization.stage3_param_persistence_threshold=10";
    let train = home.run(&["train", "run.json", "--out", "out", "--overwrite", "--set", low]);
    let lines: Vec<&str> = train.stderr.lines().filter(|line| line.starts_with("stage ")).collect();
    expect![[r#"
        stage 0: 0 of 4 units persist, 0 elements
        stage 1: 0 of 2 units persist, 0 elements"#]]
    .assert_eq(&lines.join("\n"));
    assert!(!home.run(&["plan", "run.json", "--set", low]).success().contains("stay gathered"));
}

/// The threshold of the model may be what is too low.
#[test]
fn a_model_threshold_below_every_unit_is_a_warning_with_the_least_that_is_not() {
    let home = Home::new();
    let of = |threshold: u64| {
        let model = format!("zero_optimization.stage3_model_persistence_threshold={threshold}");
        let param = "zero_optimization.stage3_param_persistence_threshold=1000000";
        let printed = home.run(&["plan", "run.json", "--set", param, "--set", &model]);
        let lines: Vec<&str> =
            printed.stderr.lines().filter(|line| line.contains("no unit persists")).collect();
        (lines.join("\n"), printed.stdout.contains("stay gathered"))
    };
    let (told, persists) = of(100);
    expect!["--set zero_optimization.stage3_model_persisten...: warning: `zero_optimization.stage3_model_persistence_threshold`: no unit persists: all that persist may have 100 elements together, and the smallest with no parameter larger than 1000000 has 3280 (the unit that begins with h.1.attn); use 3280 or more, or `stage3_param_persistence_threshold` 0"].assert_eq(&told);
    assert!(!persists);
    let least: u64 = told.rsplit_once("; use ").unwrap().1.split_once(' ').unwrap().0.parse().unwrap();
    assert!(!of(least - 1).1);
    assert_eq!(of(least), (String::new(), true));
}

/// A unit is one message, so small parameters of large units stay with them; which threshold would do is said.
#[test]
fn a_threshold_below_every_unit_is_a_warning_with_the_least_that_is_not() {
    let home = Home::new();
    let of = |threshold: u64| {
        let set = format!("zero_optimization.stage3_param_persistence_threshold={threshold}");
        let printed = home.run(&["plan", "run.json", "--set", &set]);
        let lines: Vec<&str> =
            printed.stderr.lines().filter(|line| line.contains("no unit persists")).collect();
        (lines.join("\n"), printed.stdout.contains("stay gathered"))
    };
    let (told, persists) = of(10);
    expect!["--set zero_optimization.stage3_param_persisten...: warning: `zero_optimization.stage3_param_persistence_threshold`: no unit persists: every one has a parameter larger than 10, at least 1024 (in the unit that begins with wpe); small parameters alone would save nothing, since a unit is gathered in one message; use 1024 or more, or 0"].assert_eq(&told);
    assert!(!persists);
    let low = "zero_optimization.stage3_param_persistence_threshold=10";
    let train = home.run(&["train", "run.json", "--out", "out", "--set", low]);
    assert_eq!(train.stderr.matches(&told).count(), 1, "{}", train.stderr);
    let least: u64 = told.rsplit_once("use ").unwrap().1.split_once(' ').unwrap().0.parse().unwrap();
    assert!(!of(least - 1).1);
    // With the number that is named a unit persists, and nothing is warned of; nor is it where none was asked for.
    assert_eq!(of(least), (String::new(), true));
    assert_eq!(of(0), (String::new(), false));
}

#[test]
fn nothing_left_to_shard_is_a_warning_with_the_count() {
    let home = Home::new();
    let threshold = "zero_optimization.stage3_param_persistence_threshold=4096";
    let printed = home.run(&["plan", "run.json", "--set", threshold]);
    expect!["--set zero_optimization.stage3_param_persisten...: warning: `zero_optimization.stage3_param_persistence_threshold`: no parameter is larger than 4096, so all 6 units (17504 elements) stay gathered all step and ZeRO-3 has no weights left to shard; gradients and optimizer state are sharded, as they would be by ZeRO-2; use a lower threshold"].assert_eq(printed.stderr.lines().last().unwrap());
    printed.success();
    // One element fewer, and the embedding is sharded.
    let threshold = "zero_optimization.stage3_param_persistence_threshold=4095";
    let printed = home.run(&["plan", "run.json", "--set", threshold]);
    assert!(!printed.stderr.contains("no weights left to shard"), "{}", printed.stderr);
}
