//! Schedules with several stages per rank and schedule files: as text, as CSV and back, and their errors.

use std::sync::Arc;

use expect_test::expect;
use pipezero::config::{Checkpointing, Resources, RunFile, ScheduleConfig};
use pipezero::plan::Plan;
use pipezero_schedule::ComputeOrder;

use crate::command::Home;

/// Every generated schedule.
const SCHEDULES: [&str; 9] = [
    r#""gpipe""#,
    r#""1f1b""#,
    r#""eager-1f1b""#,
    r#""interleaved","virtual_stages":2"#,
    r#""interleaved","virtual_stages":2,"group_size":3"#,
    r#""bfs","virtual_stages":2"#,
    r#""zb-h1""#,
    r#""zb-h2""#,
    r#""zb-v""#,
];
const FROM_FILE: &str = r#"{"file":"order.csv"}"#;

/// What runs a schedule on two ranks.
fn parallel(schedule: &str) -> String {
    format!(r#"parallel={{"pipeline":2,"data":2,"schedule":{schedule}}}"#)
}

/// A home whose steps have five micro-batches, which no schedule's groups divide.
fn five_micro_batches() -> Home {
    Home::with(&[
        ("\"train_batch_size\": 8", "\"train_batch_size\": 10"),
        ("\"gradient_accumulation_steps\": 2", "\"gradient_accumulation_steps\": 5"),
    ])
}

fn plan(home: &Home, schedule: &str) -> Plan {
    let file = RunFile::load(&home.path("run.json")).unwrap().set(&[parallel(schedule)]).unwrap();
    Plan::new(file.resolve(Resources::this_host()).unwrap().0).unwrap()
}

#[test]
fn the_csv_of_every_schedule_reads_back_as_the_same_program() {
    let home = five_micro_batches();
    let csv =
        |schedule| home.run(format!("show run.json --format csv --set {}", parallel(schedule))).success();
    for schedule in SCHEDULES {
        let order = csv(schedule);
        home.write("order.csv", &order);
        assert_eq!(csv(FROM_FILE), order, "{schedule}");
        let program = |schedule| plan(&home, schedule).training().program().clone();
        assert_eq!(program(FROM_FILE), program(schedule), "{schedule}");
    }
}

#[test]
fn a_schedule_from_a_file_trains_as_the_one_it_came_from() {
    let home = five_micro_batches();
    let named = parallel(SCHEDULES[3]);
    let weights = |parallel: &str, out: &str| {
        home.run(format!("train run.json --out {out} --set {parallel}")).success();
        std::fs::read(home.path(out).join("weights.safetensors")).unwrap()
    };
    home.write("order.csv", home.run(format!("show run.json --format csv --set {named}")).success());
    assert_eq!(weights(&parallel(FROM_FILE), "file"), weights(&named, "named"));
}

/// The run directory holds all that the run is, but for its text: the order that it ran is copied.
#[test]
fn a_run_directory_outlives_its_schedule_file() {
    let home =
        Home::with(&[("\"data\": 2 }", "\"data\": 2, \"schedule\": {\"file\": \"orders/own.csv\"} }")]);
    std::fs::create_dir(home.path("orders")).unwrap();
    // As a spreadsheet program may write it.
    home.write("orders/own.csv", "\u{feff}0F0,0F1,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,\r\n\r\n");
    home.run("train run.json --out first").success();
    std::fs::remove_dir_all(home.path("orders")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&home.read("first/run.json")).unwrap();
    assert_eq!(stored["parallel"]["schedule"]["file"], "schedule.csv");
    assert_eq!(home.read("first/schedule.csv"), "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    std::fs::rename(home.path("first"), home.path("out")).unwrap();
    home.run("eval out").success();
    // What three steps teach is no text yet.
    let generated = home.command("generate out --prompt the_c --max-tokens 4").output().unwrap();
    assert!(generated.status.success() && generated.stdout.starts_with(b"the_c"), "{generated:?}");
    // The stored file trains to the same weights, into its own folder too.
    let weights = || std::fs::read(home.path("out").join("weights.safetensors")).unwrap();
    let first = weights();
    home.run("train out/run.json --out out --overwrite").success();
    assert_eq!(weights(), first);
    // A run without a schedule file leaves none behind.
    let named = r#"parallel={"pipeline":2,"data":2}"#;
    home.run(format!("train out/run.json --out out --overwrite --set {named}")).success();
    assert!(!home.path("out/schedule.csv").exists());
}

#[test]
fn plan_says_which_stages_a_rank_has() {
    let schedule = parallel(r#""bfs","virtual_stages":2"#);
    let half = "bf16.enabled=true --set activation_checkpointing.enabled=true";
    let text = Home::new().run(format!("plan run.json --set {schedule} --set {half}")).success();
    let [headline, stages, ..] = text.split("\n\n").collect::<Vec<_>>()[..] else { panic!("{text}") };
    expect![[r#"17.5 k parameters, pipeline 2 x data 2, bfs with 2 stages per rank, bf16, optimizer state, gradients and parameters sharded (ZeRO-3), at most 2 units gathered on a rank ("level"), activations of each unit recomputed, bubble 20.0% of a step"#]].assert_eq(headline);
    expect![[r#"
        pipeline rank  stages  parts  units  gathered at once  parameters  in flight     first     last
        0                0, 2      6      3                 2      10.9 k          4       wte  h.2.mlp
        1                1, 3      6      3                 2      10.7 k          4  h.1.attn  lm_head"#]]
    .assert_eq(stages);
}

/// A V: rank 0 has the first stage and the last, rank 1 those between.
#[test]
fn show_names_the_stages_of_each_rank() {
    let home = Home::new();
    home.write("order.csv", "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
    let set = parallel(FROM_FILE);
    let text = home.run(format!("show run.json --set {set} --set zero_optimization.stage=1")).success();
    let head = |line: &&str| line.starts_with("rank ") || line.starts_with(" 0 ");
    expect![[r#"
        rank 0  0F0 0F1 ..  3F0 3B0 3B0 3F1 3B1 3B1 ..  0B0 0B0 ..  ..  0B1 0B1
        rank 1  ..  1F0 2F0 1F1 2F1 ..  2B0 2B0 1B0 1B0 2B1 2B1 1B1 1B1 ..  ..
        rank 0: s0, s3
         0  s1>s0    RECV s1>s0 m0   after 12 of rank 1
        rank 1: s1, s2
         0  s0>s1    RECV s0>s1 m0   after 6 of rank 0"#]]
    .assert_eq(&text.lines().filter(head).collect::<Vec<_>>().join("\n"));
    let plan = home.run(format!("plan run.json --set {set}")).success();
    let headline = plan.lines().next().unwrap();
    assert!(headline.contains(", schedule file order.csv with 2 stages per rank, f32, "), "{headline}");
}

#[test]
fn a_file_that_cannot_be_run_is_refused_at_its_place() {
    let home = Home::with(&[("\"data\": 2 }", "\"data\": 2, \"schedule\": {\"file\": \"order.csv\"} }")]);
    home.write("order.csv", "0F0,0F1\n1F0,1F1\n");
    let refused = |command| home.run(format!("{command} run.json")).failure(2);
    for command in ["plan", "show", "train"] {
        assert_eq!(refused(command), refused("check"));
    }
    assert!(!home.path("runs").exists());
    // A run that was made by hand meets the rule on recomputation in the plan.
    let whole = parallel(SCHEDULES[1]);
    let file = RunFile::load(&home.path("run.json")).unwrap().set(&[whole]).unwrap();
    let (mut run, _) = file.resolve(Resources::this_host()).unwrap();
    let halves = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n";
    let order = Arc::new(ComputeOrder::from_csv(halves).unwrap());
    run.parallel.schedule = ScheduleConfig::File { path: home.path("order.csv"), order };
    run.checkpointing = Checkpointing::Unit;
    expect!["0I0 is half a backward of unit 1, which recomputes its activations: between the halves they would occupy the buffer that the next unit needs; use a schedule with full backwards (`B`), or do not recompute"].assert_eq(&Plan::new(run).unwrap_err().to_string());
    // So is a circle of waits, at the cell of its first.
    home.write("order.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
    home.refuses("check", expect![[r#"
        $ run.json
        [2] error: not a valid run, 1 mistake:
          x `parallel.schedule` is file "order.csv", but it is no schedule: row 1, column 2, `0B0`: no rank can go on: these actions wait for each other; run first what others wait for, and use messages in order:
          |   `0B0` (row 1, column 2) waits for `1B0` (row 2, column 4), which comes after `1F1` (row 2, column 1)
          |   `1F1` (row 2, column 1) waits for `0F1` (row 1, column 3), which comes after `0B0` (row 1, column 2)
            ,-[run.json:11:55]
         10 |   "evaluation": { "every": 2, "batches": 1 },
         11 |   "parallel": { "pipeline": 2, "data": 2, "schedule": {"file": "order.csv"} },
            :                                                       ^^^^^^^^^^^^^^^^^^^^^
         12 |   "zero_optimization": { "stage": 3 },
            `----
          help: name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`
    "#]]);
}

#[test]
fn a_file_whose_backwards_do_not_ascend_is_warned_of() {
    let home = Home::with(&[("\"data\": 2 }", "\"data\": 2, \"schedule\": {\"file\": \"order.csv\"} }")]);
    home.write("order.csv", "0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n");
    let printed = home.run("check run.json --set zero_optimization.stage=1");
    expect![[r#"

        run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        run.json:11:55: warning: `parallel.schedule`: it runs backwards of a stage in another order than that of the micro-batches, first at `0B0` at row 1, column 4, so gradients are added in another order: results are close to those of other schedules, and not bit-identical
    "#]].assert_eq(&printed.stderr);
    printed.success();
}

#[test]
fn one_unit_on_a_rank_is_refused_where_only_the_plan_knows_the_split() {
    // The head is as heavy as a layer, so the balanced split leaves the last stage one layer, in one unit with the head.
    let home = Home::with(&[("\"seq_length\": 16", "\"seq_length\": 16, \"tie_embeddings\": false")]);
    home.refuses("train run.json --out", expect![[r#"
        $ out
        [2] error: not a valid run, 1 mistake:
          x `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and with the split "balanced" one unit holds all layers of pipeline rank 1, h.3.attn to lm_head): everything would be gathered for every micro-batch, and the peak memory is that of no sharding
            ,-[run.json:12:35]
         11 |   "parallel": { "pipeline": 2, "data": 2 },
         12 |   "zero_optimization": { "stage": 3 },
            :                                   ^
         13 |   "train_batch_size": 8,
            `----
          help: write "stage": 1, or "partition": "uniform", or "unit_layers": 0.5

        per rank                                                  parameters  gathered  gradients  optimizer      total  sent per step
        refused: ZeRO-3, pipeline 2 x data 2, one unit on a rank    27.8 KiB  42.8 KiB   83.4 KiB   55.6 KiB  209.6 KiB      147.6 KiB
        ZeRO-3, pipeline 2 x data 2, uniform split                  21.4 KiB  42.8 KiB   64.1 KiB   42.8 KiB  171.0 KiB       64.1 KiB
        ZeRO-3, pipeline 2 x data 2, units of half a layer          27.8 KiB  29.9 KiB   57.7 KiB   55.6 KiB  171.0 KiB      160.4 KiB
        ZeRO-1, pipeline 2 x data 2                                 55.6 KiB       0 B   55.6 KiB   55.6 KiB  166.9 KiB       55.6 KiB
        ZeRO-2, pipeline 1 x data 4                                 85.0 KiB       0 B   77.2 KiB   42.5 KiB  204.8 KiB      127.5 KiB
    "#]]);
    let by_type = home.run("check run.json --set parallel.partition=type:h.0|h.[12].attn").failure(2);
    let by_type = by_type.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ");
    let wanted = "with the split \"type:h.0|h.[12].attn\" one unit holds all layers of pipeline rank 0, embedding to h.0.mlp";
    assert!(by_type.contains(wanted), "{by_type}");
    assert!(!home.path("out").exists());
    // Every repair is one.
    for repair in
        ["parallel.partition=uniform", "zero_optimization.unit_layers=0.5", "zero_optimization.stage=1"]
    {
        home.run(format!("check run.json --set {repair}")).success();
    }
}

#[test]
fn a_pattern_that_matches_no_layer_is_an_error_with_their_names() {
    let home = Home::with(&[("\"stage\": 3", "\"stage\": 1")]);
    home.refuses("check run.json --set", expect![[r#"
        $ parallel.partition=type:sparse
        [2] error: not a valid run, 1 mistake:
          x `parallel.partition` is "type:sparse", but the pattern matches none of the model's 12 layers, which are wte, wpe to lm_head
           ,-[--set:1:20]
         1 | parallel.partition=type:sparse
           :                    ^^^^^^^^^^^
           `----
          help: match at least one, or use "balanced"
    "#]]);
    home.run("check run.json --set parallel.partition=type:ATTN").success();
}
