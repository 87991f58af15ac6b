//! `check`, `plan` and `show` say what a run will be, before anything runs.

use expect_test::expect;
use pipezero::config::{Resources, RunFile};
use pipezero::plan::Plan;
use pipezero_schedule::{PipelineRank, Program, render};
use serde_json::Value;

use crate::command::Home;

#[test]
fn check_prints_the_resolved_run() {
    let run = Home::new().json("check run.json --json --set gradient_clipping=0.5");
    assert_eq!(run["gradient_clipping"], 0.5);
    assert_eq!(run["batch"]["num_micro_batches"], 2);
    assert_eq!(run["batch"]["micro_batch_size"], 2);
    assert!(run["model"]["gpt2"]["hidden_size"].is_u64(), "{run}");
}

#[test]
fn plan_prints_what_each_rank_holds_and_sends() {
    let home = Home::new();
    let text = home.run("plan run.json").success();
    let [headline, stages, memory, traffic, beside_zero_1, residencies, speed] =
        text.split("\n\n").collect::<Vec<_>>()[..]
    else {
        panic!("a headline, five tables and two lines: {text}")
    };
    let zero = "optimizer state, gradients and parameters sharded (ZeRO-3)";
    assert!(
        headline.starts_with("17.5 k parameters, pipeline 2 x data 2, 1f1b, f32, ")
            && headline.contains(zero),
        "{text}"
    );
    expect![[r#"
        pipeline rank  parts  units  gathered at once  parameters  in flight     first     last
        0                  8      4                 2      14.2 k          2       wte  h.2.mlp
        1                  4      2                 2       7.4 k          1  h.3.attn  lm_head"#]]
    .assert_eq(stages);
    // A table as wide as the terminal is not for machines; the bytes are tested as JSON.
    let rows: Vec<&str> = memory.lines().map(|line| line.split(&[' ', ':']).next().unwrap()).collect();
    assert_eq!(rows, ["memory", "pipeline", "pipeline", "peak"]);
    expect![[r#"
        sent per rank and step       all-gather  reduce-scatter     all-reduce           send
        pipeline rank 0         12 x, 82.38 KiB  8 x, 55.62 KiB  2 x, 8.28 KiB  2 x, 4.00 KiB
        pipeline rank 1          2 x, 14.50 KiB  4 x, 29.00 KiB  2 x, 8.28 KiB  2 x, 4.00 KiB"#]]
    .assert_eq(traffic);
    expect![[r#"
        beside ZeRO-1          peak    ZeRO-1's     of it  sent per step   ZeRO-1's
        pipeline rank 0  332.12 KiB  328.00 KiB  101.26 %     150.28 KiB  67.91 KiB
        pipeline rank 1  206.00 KiB  177.00 KiB  116.38 %      55.78 KiB  41.28 KiB
        ZeRO-1's: on this split, with these slices and logits"#]]
    .assert_eq(beside_zero_1);
    expect![[r#"
        resident_units    all-gathers  on one rank  bytes sent      memory
        strict                     22           14   95.25 KiB  332.12 KiB
        2                          14           12   82.38 KiB  332.12 KiB
        3                           8            6   41.19 KiB  345.00 KiB
        all                         6            4   27.81 KiB  357.88 KiB
        level (this run)           14           12   82.38 KiB  332.12 KiB
        all-gathers: of a step on all pipeline ranks; on one rank, the bytes sent in them and memory: of the rank that has most"#]]
    .assert_eq(residencies);
    expect![[r#"
        logits: kept ("auto"), pipeline rank 1 needs 206.00 KiB; recomputed, for 7.41 % more compute, 187.88 KiB
        memory: at most 332.12 KiB on a rank (pipeline rank 0); `memory` sets no limit
        process: 20.00 MiB with 4 ranks: buffers of ranks 1.05 MiB, program 5.00 MiB, threads 2.00 MiB, products 8.00 MiB, pieces of parameters 80.00 KiB, page tables 2.10 KiB, text 1.00 MiB, reading the text 2.87 MiB
        speed: --device h100 or h200 or a100 or cpu predicts it
    "#]]
    .assert_eq(speed);
}

#[test]
fn plan_as_json_has_a_rank_each_with_memory_and_traffic() {
    let home = Home::new();
    let plan = home.json("plan run.json --json");
    let ranks = plan["ranks"].as_array().unwrap();
    let grid: Vec<_> = ranks
        .iter()
        .map(|rank| ["rank", "pipeline_rank", "data_rank"].map(|key| rank[key].as_u64().unwrap()))
        .collect();
    // Data ranks are innermost.
    assert_eq!(grid, [[0, 0, 0], [1, 0, 1], [2, 1, 0], [3, 1, 1]]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&ranks[0]),
        "rank pipeline_rank data_rank stages layers units parameters persistent whole resident_units in_flight memory traffic"
    );
    assert_eq!(
        keys(&ranks[0]["memory"]),
        "parameters gathered gradients optimizer activations communication checkpoint peak"
    );
    assert_eq!(keys(&ranks[0]["traffic"]), "all_gather reduce_scatter all_reduce send");
    assert_eq!(keys(&ranks[0]["traffic"]["send"]), "count bytes");
    // Two micro-batches of 2 sequences x 16 tokens x 16 values go to the next stage.
    assert_eq!(ranks[0]["traffic"]["send"], serde_json::json!({ "count": 2, "bytes": 2 * 2 * 16 * 16 * 4 }));
    for rank in ranks {
        let memory = rank["memory"].as_object().unwrap();
        let sum: u64 =
            memory.iter().filter(|(key, _)| *key != "peak").map(|(_, bytes)| bytes.as_u64().unwrap()).sum();
        assert_eq!(memory["peak"], sum, "everything is allocated before the first step");
        let layers = rank["layers"].as_array().unwrap().len();
        let in_units: usize =
            rank["units"].as_array().unwrap().iter().map(|unit| unit.as_array().unwrap().len()).sum();
        assert_eq!(layers, in_units);
    }
    // An override changes the plan.
    let zero_1 = home.json("plan run.json --json --set zero_optimization.stage=1");
    assert_eq!(zero_1["ranks"][0]["memory"]["gathered"], 0);
    assert!(ranks[0]["memory"]["gathered"].as_u64() > Some(0));
}

/// Ranks of six stages each, in less memory than the fastest split needs: far more splits than are looked at.
#[test]
fn a_split_that_is_not_proved_the_fastest_says_so() {
    let home = Home::new();
    let looped = "parallel.schedule=interleaved --set parallel.virtual_stages=6 --set model.num_layers=40";
    let steps = "gradient_accumulation_steps=8 --set train_batch_size=32";
    let zero = "zero_optimization.stage=1";
    let plan = |memory: &str| {
        home.run(format!(
            "plan run.json --json --set {looped} --set {steps} --set {zero} --set memory={memory}"
        ))
    };
    let is_said = |stderr: &str| stderr.contains("not proved to be the fastest");
    let ample = plan("1GiB");
    assert!(!is_said(&ample.stderr), "{}", ample.stderr);
    let ranks: Value = serde_json::from_str(&ample.success()).unwrap();
    let peak = ranks["ranks"].as_array().unwrap().iter().map(|rank| rank["memory"]["peak"].as_u64().unwrap());
    let tight = plan(&(peak.max().unwrap() * 96 / 100).to_string());
    assert!(is_said(&tight.stderr), "{}", tight.stderr);
    tight.success();
}

/// Stages of a rank need not be full together, so activations in flight may be fewer than the slots that hold them.
#[test]
fn in_flight_is_what_is_held_at_once() {
    let looped = "parallel.schedule=interleaved --set parallel.virtual_stages=2";
    let plan =
        Home::new().json(format!("plan run.json --json --set {looped} --set zero_optimization.stage=1"));
    let ranks = plan["ranks"].as_array().unwrap().iter();
    let in_flight: Vec<u64> = ranks.step_by(2).map(|rank| rank["in_flight"].as_u64().unwrap()).collect();
    // 2 (p - 1 - rank) + p (v - 1) + 1, of at most m v: Narayanan et al., arXiv:2104.04473, section 2.2.
    assert_eq!(in_flight, [4, 3]);
}

#[test]
fn show_prints_the_order_and_every_instruction() {
    let home = Home::new();
    let text = home.run("show run.json").success();
    let (run, _) = RunFile::load(&home.path("run.json")).unwrap().resolve(Resources::this_host()).unwrap();
    let plan = Plan::new(run).unwrap();
    let [first, last] = [0, 1].map(|rank| render::instructions(plan.training(), PipelineRank(rank)));
    let order = "rank 0  F0 F1 .. .. B0 B0 .. B1 B1\nrank 1  .. F0 B0 B0 F1 B1 B1 .. ..\n";
    assert_eq!(text, format!("{order}\nrank 0\n{first}\nrank 1\n{last}"));
    let csv = home.run("show run.json --format csv").success();
    assert_eq!(csv, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    let shown = home.run("show run.json --format program").success();
    assert_eq!(&shown.parse::<Program>().unwrap(), plan.training().program());
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let home = Home::new();
    let mut child = home
        .command("show run.json --set gradient_accumulation_steps=400 --set train_batch_size=800")
        .spawn()
        .unwrap();
    // Far more is printed than a pipe holds, so the binary meets the closed end.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), stderr.contains("error") || stderr.contains("panicked")),
        (Some(0), false)
    );
}

#[test]
fn help_teaches_by_example() {
    let home = Home::new();
    for command in
        ["train", "eval", "generate", "check", "plan", "show", "simulate", "profile", "compare", "tokenize"]
    {
        let help = home.run(format!("{command} --help")).success();
        assert!(help.contains("Examples:\n  pipezero "), "{help}");
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let (examples, _) = examples.split_once("\n\n").unwrap_or((examples, ""));
        assert!(examples.contains(&format!("  pipezero {command} ")), "{help}");
        let mut goes_on = false;
        for line in examples.lines() {
            // A terminal of 80 columns breaks none of them, and each can be pasted: it is a command, or goes on with one.
            assert!(line.chars().count() <= 78, "{line}");
            assert!(line.starts_with(if goes_on { "    --" } else { "  pipezero " }), "{line}");
            goes_on = line.ends_with(" \\");
        }
        assert!(!goes_on, "{examples}");
    }
}

#[test]
fn too_few_micro_batches_for_the_pipeline_are_warned_of() {
    let home = Home::new();
    let warnings = |steps: &str| {
        let printed = home.run(format!("plan run.json --set gradient_accumulation_steps={steps}"));
        let lines = printed.stderr.lines().filter(|line| line.contains("gradient_accumulation_steps"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    // A step of (m + p - 1) times a micro-batch's, p - 1 of them idle: 1 of 2.
    expect![[r#"
        --set gradient_accumulation_steps=1: warning: `gradient_accumulation_steps`: a step of 1 micro-batch on 2 pipeline ranks never has work for all of them, and the bubble is 50% of it; raise `gradient_accumulation_steps` to 2 or more
    "#]].assert_eq(&warnings("1"));
    assert_eq!(warnings("2"), "");
}
