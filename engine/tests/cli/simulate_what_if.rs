//! `simulate RUN.json` on a cluster whose ranks differ, or share links and cores: mostly of the timed run with its costs, 2 x 2
//! ranks, two micro-batches, F 6 ms, B 10 ms, a hop of 1 ms.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;
use crate::simulate_run::{TIMED, home, measured};

/// World rank 3, the second stage at data rank 1, takes 12 and 20 ms: 6 + 1 before its first forward, two micro-batches in
/// turn, 1 + 10 after its last backward. The norm waits for it, and so does the end for its own optimizer.
#[test]
fn a_straggler_holds_up_everybody() {
    let home = home();
    let found = home.json(measured("--json --speed 3=0.5 --explain"));
    let span = 7.0 + 2.0 * 32.0 + 11.0;
    let optimizer = 2.0 * 2.0 * 2.0 * 512.0 / 1000.0;
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    };
    near(&found["makespan_s"], (span + 0.25 + optimizer) / 1e3);
    near(&found["longest_rank_span_s"], span / 1e3);
    near(&found["what_if"]["step_without_s"], 0.052_798);
    near(&found["what_if"]["times_without"], found["step_s"].as_f64().unwrap() / 0.052_798);
    assert_eq!(found["what_if"]["slowest_data_rank"], 1);
    assert_eq!(found["what_if"]["speeds"][0], serde_json::json!({ "rank": 3, "factor": 0.5 }));
    let ranks = found["world_ranks"].as_array().unwrap();
    for (index, rank) in ranks.iter().enumerate() {
        assert_eq!(
            (&rank["rank"], &rank["pipeline_rank"], &rank["data_rank"]),
            (&index.into(), &(index / 2).into(), &(index % 2).into())
        );
        let bubble = rank["bubble"].as_object().unwrap().values().map(|part| part.as_f64().unwrap());
        near(&found["makespan_s"], rank["busy_s"].as_f64().unwrap() + bubble.sum::<f64>());
    }
    near(&ranks[3]["busy_s"], (64.0 + optimizer) / 1e3);
    near(&ranks[2]["busy_s"], (32.0 + optimizer / 2.0) / 1e3);
    // The pipeline ranks and the critical path are those of the slowest data rank.
    assert_eq!(
        [&found["ranks"][0]["busy_s"], &found["ranks"][1]["busy_s"]],
        [&ranks[1]["busy_s"], &ranks[3]["busy_s"]]
    );
    assert_eq!(found["critical_path"].as_array().unwrap().last().unwrap()["end_s"], found["makespan_s"]);
    expect![[r#"
                                    time   bubble
        all ranks               86.35 ms  50.71 %
        the longest rank alone  82.00 ms  60.98 %

        predicted step 86.85 ms, 1474 tokens/s
        of it: 500.00 µs beside its program
        times: measured on a machine (2 cores, 4 ranks at work)
        each rank: 368 tokens/s
        memory: at most 25.15 KiB on a rank (pipeline rank 0); `memory` sets no limit
        what if: rank 3 at 0.5 of its speed: 1.645 x the step without, 52.80 ms

        rank  pipeline rank  data rank  computes  other stages  transfers  gathers  reductions  issue, landing  end of step  exposed  allocated     in use
        0                 0          0  34.05 ms      16.00 ms    2.00 ms        0           0               0     34.30 ms  2.00 ms  25.15 KiB  25.11 KiB
        1                 0          1  34.05 ms      48.00 ms    2.00 ms        0           0               0      2.30 ms  2.00 ms  25.15 KiB  25.11 KiB
        2                 1          0  34.05 ms       6.00 ms    1.00 ms        0           0               0     45.30 ms  1.00 ms  25.02 KiB  24.95 KiB
        3                 1          1  68.10 ms       6.00 ms    1.00 ms        0           0               0     11.25 ms  1.00 ms  25.02 KiB  24.95 KiB

        data rank 1, the slowest of 2:
        rank 0  F0---------F1--------.................................................B0----------------.......................................B1---------------.S--....
        rank 1  ............F0-------------------B0----------------------------------F1-------------------B1---------------------------------....................S------
                |0 ms             |10 ms           |20 ms            |30 ms           |40 ms            |50 ms            |60 ms           |70 ms            |80 ms
    "#]].assert_eq(&home.run(measured("--speed 3=0.5 --width 160")).success());
}

/// A speed of 1 changes nothing: every figure is the one that is printed without it, bit for bit.
#[test]
fn ranks_that_are_alike_are_those_without_what_if() {
    let home = home();
    let plain = home.json(measured("--json --explain"));
    for alike in ["--speed 0=1", "--sharing own", "--jitter 0", "--slowdown 1.0"] {
        let mut found = home.json(measured(&format!("--json --explain {alike}")));
        let found = found.as_object_mut().unwrap();
        assert_eq!(found.remove("what_if").unwrap()["times_without"], 1.0);
        let ranks = found.remove("world_ranks").unwrap();
        for (index, rank) in ranks.as_array().unwrap().iter().enumerate() {
            let mut rank = rank.as_object().unwrap().clone();
            rank.remove("rank");
            rank.remove("data_rank");
            assert_eq!(Value::Object(rank), plain["ranks"][index / 2], "{alike}");
        }
        assert_eq!(Value::Object(found.clone()), plain, "{alike}");
    }
    // Data ranks that do the same are one line in the table, as ever.
    let text = home.run(measured("--speed 0=1")).success();
    assert!(text.contains("\npipeline rank  computes"), "{text}");
}

/// The same seed draws the same delays, another one others; and no delay makes a step shorter.
#[test]
fn jitter_is_reproducible() {
    let home = home();
    let step = |seed: &str| {
        let found = home.json(measured(&format!("--json --jitter 0.2 --jitter-seed {seed}")));
        assert!(found["what_if"]["times_without"].as_f64().unwrap() > 1.0, "{found}");
        found
    };
    assert_eq!(step("7"), step("7"));
    assert_ne!(step("7")["makespan_s"], step("8")["makespan_s"]);
}

/// F 4 ms, B 8 ms, and messages between nodes that take 2 ms of the way by themselves, so that a step's span is
/// `(m + p - 1) (4 + 8) + 2 c`; there is one hop up on the critical path and one down.
#[test]
fn messages_slow_each_other_and_computes_down() {
    let home = Home::new();
    let links = "--set comm.links.ranks_per_node=2 --set comm.links.near.gb_per_s=1000 \
        --set comm.links.far.gb_per_s=0.00002";
    let of = |more: &str| home.json(format!("simulate {TIMED} --device h100 {links} --json {more}"));
    let span_ms = |more: &str| of(more)["longest_rank_span_s"].as_f64().unwrap() * 1e3;
    // What sharing changes ends at most a nanosecond late each time.
    let near =
        |found: f64, expected: f64| assert!((found - expected).abs() < 2e-5, "{found}, not {expected}");
    near(span_ms(""), 36.0 + 4.0);
    // A rank sends one message at a time.
    near(span_ms("--sharing rank-port"), 36.0 + 4.0);
    // Both ranks of a node send at once, and each gets half.
    near(span_ms("--sharing node-port"), 36.0 + 8.0);
    // Beside each forward of the last stage a message is under way for 2 ms, in which 4/3 ms of it is done.
    near(span_ms("--slowdown 1.5"), 36.0 + 4.0 + 2.0 * 2.0 / 3.0);
    let half = of("--sharing node-port --half-duplex");
    assert_eq!(
        (&half["what_if"]["sharing"], &half["what_if"]["half_duplex"]),
        (&"node-port".into(), &true.into())
    );
}

/// Computes of a CPU need its cores; those of a GPU, and of timed layers, which stand in for one, do not.
#[test]
fn cores_are_shared_by_what_runs_on_them() {
    let home = Home::new();
    let occupied = |run: &str| {
        home.json(format!("simulate {run} --cores 2 --json"))["what_if"]["cores"]["computes_occupy_cores"]
            .take()
    };
    assert_eq!(occupied("run.json"), true);
    assert_eq!(occupied("run.json --device h100"), false);
    assert_eq!(occupied(TIMED), false);
    // Wide enough that computes take longer than waking a rank for its messages.
    let wide = "--set model.hidden_size=512 --set model.seq_length=64";
    // A core is measured each time, so only what a step takes beside that without shared cores can be compared.
    let times = |cores: &str| {
        let found = home.json(format!("simulate run.json --cores {cores} {wide} --json"));
        found["what_if"]["times_without"].as_f64().unwrap()
    };
    // Both data ranks compute at once all the time, so one core takes about twice as long as two.
    assert!(times("1") > 1.5 * times("2"));
    // More cores than ranks help nobody.
    assert_eq!([times("4"), times("400")], [1.0; 2]);
}

/// The picture is of one data rank and says which; the trace has all.
#[test]
fn pictures_say_which_data_rank_they_show() {
    let home = home();
    let picture = home.run(measured("--speed 3=0.5 --format svg")).success();
    assert!(picture.contains("run.json, data rank 1, the slowest of 2"), "{picture}");
    let trace = home.run(measured("--speed 3=0.5 --format chrome")).success();
    for name in ["predicted rank 0.0", "predicted rank 0.1", "predicted rank 1.0", "predicted rank 1.1"] {
        assert!(trace.contains(&format!("\"{name}\"")), "{name}");
    }
}

/// Of many ranks, the table has each pipeline rank once, and says so.
#[test]
fn of_many_ranks_the_slowest_are_listed() {
    let home = Home::new();
    let many = "--set parallel.data=32 --set train_batch_size=128 --device h100";
    let text = home.run(format!("simulate {TIMED} --speed 45=0.5 {many}")).success();
    let (_, table) =
        text.split_once("of 64 ranks, each pipeline rank's slowest data rank; --json has all\n").unwrap();
    let rows: Vec<&str> = table.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 2, "{text}");
    // World rank 45 is the second stage at data rank 13, and its pipeline waits for it.
    assert!(rows[0].starts_with("13 ") && rows[1].starts_with("45 "), "{text}");
    assert!(text.contains("\ndata rank 13, the slowest of 32:\n"), "{text}");
}

#[test]
fn what_if_arguments_that_cannot_be_applied_are_errors() {
    home().refuses(&measured(""), expect![[r#"
        $ --speed 9=0.5
        [2] error: a speed for rank 9 in a cluster of 4 ranks: ranks count from 0, data ranks innermost; name one below 4
        $ --speed 1=0.5 --speed 1=0.6
        [2] error: --speed is given twice for rank 1: a rank has one speed; leave one of them out
        $ --speed 1=0
        [2] error: invalid value '1=0' for '--speed <RANK=FACTOR>': a rank with speed 0 would never finish: write a factor above 0
        $ --speed 0.5
        [2] error: invalid value '0.5' for '--speed <RANK=FACTOR>': a speed belongs to a world rank: write RANK=FACTOR, such as `5=0.8`
        $ --speed 1=NaN
        [2] error: invalid value '1=NaN' for '--speed <RANK=FACTOR>': a factor is a decimal such as `0.8`, not negative, with at most 9 digits before the point and 9 behind it
        $ --jitter -0.1
        [2] error: invalid value '-0.1' for '--jitter <SHARE>': a factor is a decimal such as `0.8`, not negative, with at most 9 digits before the point and 9 behind it
        $ --jitter 4.294967297
        [2] error: invalid value '4.294967297' for '--jitter <SHARE>': a factor is stored as a quotient of two numbers below 2^32, and this one has too many digits: write fewer
        $ --slowdown 0.9
        [2] error: invalid value '0.9' for '--slowdown <FACTOR>': a message does not make computes faster: write 1 or more
        $ --sharing node-port
        [2] error: messages to other nodes share the port of their node, but all 4 ranks are on one node; set comm.ranks_per_node to fewer (comm.links.ranks_per_node where the run has links), name a device with smaller nodes, or let ranks share ports instead (rank-port)
        $ --sharing own --half-duplex
        [2] error: --half-duplex needs ports that messages share: add --sharing rank-port or node-port
        $ --cores 0
        [2] error: hosts of 4 ranks and 0 cores: a host has at least one of each; give both, or leave cores out
    "#]]);
}
