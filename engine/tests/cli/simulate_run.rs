//! `simulate RUN.json`.

use expect_test::{expect, expect_file};
use serde_json::Value;

use crate::command::Home;

/// The run of every [`Home`] with timed layers: 2 x 2 ranks, four layers of 2 + 2 + 2 ms.
pub(crate) const TIMED: &str = "run.json --set zero_optimization.stage=1 --set model.family=timed \
    --set model.hidden_size=null --set model.num_attention_heads=null --set model.parameters_per_layer=1000 \
    --set model.activation_elements=10 --set model.forward_ms=2";

/// A costs file of the timed run: a unit is a layer.
pub(crate) const COSTS: &str = r#"{
  "version": 1,
  "host": { "name": "a machine", "cores": 2, "ranks": 4 },
  "workload": {
    "model": { "timed": { "parameters_per_layer": 1000, "activation_elements": 10, "forward_ns": 2000000,
                          "backward_input_ns": 2000000, "backward_weight_ns": 2000000, "recompute_ns": 2000000 } },
    "seq_length": 16, "micro_batch_size": 2, "precision": "f32", "optimizer": "AdamW",
    "activation_checkpointing": "off", "threads": 1
  },
  "step_overhead_ns": 500000,
  "units": [
    { "layers": ["h.*"], "parameters": 1000, "forward_ns": 3000000, "backward_ns": 5000000,
      "gradient_norm": { "elements": 1000, "ns": 0 }, "optimizer_step": { "elements": 1000, "ns": 2000000 } }
  ],
  "messages": [
    { "kind": "reduce_last", "ranks": 2,
      "sizes": [{ "bytes": 4096, "issue_ns": 0, "occupied_ns": 0, "latency_ns": 0, "landing_ns": 0 }] },
    { "kind": "gather_after_step", "ranks": 2,
      "sizes": [{ "bytes": 4096, "issue_ns": 0, "occupied_ns": 0, "latency_ns": 0, "landing_ns": 0 }] },
    { "kind": "activation", "ranks": 2,
      "sizes": [{ "bytes": 40, "issue_ns": 0, "occupied_ns": 0, "latency_ns": 1000000, "landing_ns": 0 }] },
    { "kind": "gradient", "ranks": 2,
      "sizes": [{ "bytes": 40, "issue_ns": 0, "occupied_ns": 0, "latency_ns": 1000000, "landing_ns": 0 }] },
    { "kind": "gradient_norm", "ranks": 4,
      "sizes": [{ "bytes": 192, "issue_ns": 0, "occupied_ns": 0, "latency_ns": 250000, "landing_ns": 0 }] }
  ]
}
"#;

/// A folder with the costs file.
pub(crate) fn home() -> Home {
    let home = Home::new();
    home.write("costs.json", COSTS);
    home
}

/// Simulates the timed run with its costs file.
pub(crate) fn measured(more: &str) -> String {
    format!("simulate {TIMED} --costs costs.json {more}")
}

/// Two stages of two layers and two micro-batches: by hand, with a hop of 1 ms, `(m + p - 1) (6 + 10) + c (2 (p - 1) m/p +
/// 2 (p - 2))`; then the norm, and the optimizer on what each rank owns of two layers.
#[test]
fn a_step_takes_what_its_measured_parts_take() {
    let found = home().json(measured("--json"));
    let work = 3.0 * 16.0 + 2.0;
    // A shard of 500 elements is padded to whole cache lines.
    let owned = 512.0 / 1000.0;
    let makespan = (work + 0.25 + 2.0 * 2.0 * owned) / 1e3;
    let near = |key: &str, expected: f64| {
        let value = found[key].as_f64().unwrap();
        assert!((value - expected).abs() < 1e-9, "{key}: {value}, not {expected}");
    };
    near("makespan_s", makespan);
    near("step_s", makespan + 0.0005);
    near("longest_rank_span_s", work / 1e3);
    near("bubble_rate_longest_rank", 1.0 - 32.0 / work);
    // What was measured beside the program; ranks that scatter were not.
    near("step_overhead_s", 0.0005);
    near("straggling_s", 0.0);
    near("tokens_per_s", 128.0 / (makespan + 0.0005));
    assert_eq!(found["peak_in_flight"], serde_json::from_str::<Value>("[2.0, 1.0]").unwrap());
    assert_eq!(found["assumptions"], Value::Array(Vec::new()));
    assert_eq!(found["costs"], "measured on a machine (2 cores, 4 ranks at work)");
    for rank in found["ranks"].as_array().unwrap() {
        let bubble: f64 =
            rank["bubble"].as_object().unwrap().values().map(|part| part.as_f64().unwrap()).sum();
        // What hides nothing is a part of it.
        let [transfer, gather, reduce, exposed] =
            ["/bubble/transfer_s", "/bubble/gather_s", "/bubble/reduce_s", "/exposed_comm_s"]
                .map(|key| rank.pointer(key).unwrap().as_f64().unwrap());
        assert!((transfer + gather + reduce - exposed).abs() < 1e-9 && exposed > 0.0, "{rank}");
        assert!(rank["span_s"].as_f64().unwrap() <= work / 1e3 + 1e-9, "{rank}");
        assert!((rank["busy_s"].as_f64().unwrap() + bubble - makespan).abs() < 1e-9, "{rank}");
    }
}

#[test]
fn peak_memory_is_the_plans() {
    let home = Home::new();
    let found = home.json("simulate run.json --json");
    let plan = home.json("plan run.json --json");
    for (rank, planned) in [(0, 0), (1, 2)] {
        assert_eq!(found["ranks"][rank]["peak_bytes"], plan["ranks"][planned]["memory"]["peak"]);
    }
}

#[test]
fn text_names_where_the_times_come_from() {
    let home = home();
    expect![[r#"
                                    time   bubble
        all ranks               52.30 ms  34.90 %
        the longest rank alone  50.00 ms  36.00 %

        predicted step 52.80 ms, 2424 tokens/s
        of it: 500.00 µs beside its program
        times: measured on a machine (2 cores, 4 ranks at work)
        each rank: 606 tokens/s
        memory: at most 25.15 KiB on a rank (pipeline rank 0); `memory` sets no limit

        pipeline rank  computes  other stages  transfers  gathers  reductions  issue, landing  end of step  exposed  allocated     in use
        0              34.05 ms      16.00 ms    2.00 ms        0           0               0    250.00 µs  2.00 ms  25.15 KiB  25.11 KiB
        1              34.05 ms       6.00 ms    1.00 ms        0           0               0     11.25 ms  1.00 ms  25.02 KiB  24.95 KiB

        rank 0  F0---------------F1----------------...................................B0---------------------------.................B1---------------------------.S-----
        rank 1  ....................F0----------------B0---------------------------F1---------------B1---------------------------.................................S-----
                |0 ms          |5 ms         |10 ms         |15 ms        |20 ms         |25 ms        |30 ms         |35 ms        |40 ms         |45 ms        |50 ms
    "#]].assert_eq(&home.run(measured("--width 160")).success());
    let text = home.run("simulate run.json --device h100").success();
    let times = text.lines().find(|line| line.starts_with("times: ")).unwrap();
    expect!["times: analytic model of H100 SXM, not measured: 33.450 TFLOP/s in f32 and 2680.0 GB/s of memory achieved, links of 360.000 GB/s near and 45.000 GB/s far, nodes of 8 ranks"].assert_eq(times);
    let cpu = home.run("simulate run.json").success();
    for cpu in [cpu, home.run("simulate run.json --device CPU").success()] {
        let times = cpu.lines().find(|line| line.starts_with("times: ")).unwrap();
        assert!(times.starts_with("times: calculated for this CPU ("), "{times}");
        assert!(times.contains(" of this machine measured at work, "), "{times}");
        assert!(times.contains(" GFLOP/s a core in f32 in the layers of the run and "), "{times}");
        assert!(times.ends_with(" for 4 ranks"), "{times}");
        assert!(!cpu.contains("MFU"), "a CPU's peak is not known: {cpu}");
    }
    let json = home.json("simulate run.json --json");
    assert_eq!([&json["each_rank"]["mfu"], &json["each_rank"]["peak_flops_per_s"]], [&Value::Null; 2]);
}

/// What is assumed because it was not measured is printed, on stderr and in the JSON.
#[test]
fn assumptions_are_printed() {
    let home = home();
    let halves = measured("--set parallel.schedule=zb-h1");
    let printed = home.run(&halves);
    expect![[r#"

        run.json:9:3: hint: `data`: no effect here: a timed model reads no text
        run.json:10:3: hint: `evaluation`: no effect here: a timed model learns nothing that could be evaluated
        assumed: input and weight gradients were not measured apart: each is taken for half of a backward
    "#]].assert_eq(&printed.stderr);
    assert_eq!(home.json(halves + " --json")["assumptions"].as_array().unwrap().len(), 1);
}

/// A trace is JSON with a process for each pipeline rank, and goes to the file of `--out`.
#[test]
fn a_step_becomes_a_trace() {
    let home = Home::new();
    let simulate = "simulate run.json --device h100 --format chrome";
    let trace = home.run(simulate).success();
    let events = serde_json::from_str::<Value>(&trace).unwrap()["traceEvents"].take();
    let events = events.as_array().unwrap().iter();
    let processes = events.filter(|event| event["name"] == "process_name");
    let names: Vec<&Value> = processes.map(|event| &event["args"]["name"]).collect();
    assert_eq!(names, ["predicted rank 0", "predicted rank 1"]);
    let printed = home.run(format!("{simulate} --out step.json"));
    assert!(printed.stderr.starts_with("wrote step.json\n"), "{}", printed.stderr);
    assert_eq!((printed.success(), home.read("step.json")), (String::new(), trace));
}

/// Messages that nothing waited for complete after the last instruction of a row: a part of the path without one.
#[test]
fn completions_at_the_end_of_a_row_are_explained() {
    let home = Home::new();
    let sizes = r#"{ "bytes": 4096, "issue_ns": 0, "occupied_ns": 0, "latency_ns": 0, "landing_ns": 0 }"#;
    let zero_1 = r#""kind": "gather_after_step", "ranks": 2,"#;
    let (before, after) = COSTS.split_once(zero_1).unwrap();
    let after = after.replacen(sizes, &sizes.replace("\"landing_ns\": 0", "\"landing_ns\": 7000"), 1);
    home.write("costs.json", format!("{before}{zero_1}{after}"));
    let found = home.json(measured("--explain --json"));
    let last = found["critical_path"].as_array().unwrap().last().unwrap();
    assert!(last["instruction"].is_null() && last["waited_for"] == "own time for messages", "{last}");
    assert_eq!(last["end_s"], found["makespan_s"]);
}

/// The critical path's parts lie end to end, from the beginning of the step to its end.
#[test]
fn a_step_is_explained() {
    let home = home();
    let found = home.json(measured("--explain --json"));
    let parts = found["critical_path"].as_array().unwrap();
    assert_eq!(parts[0]["start_s"], 0.0);
    assert!(parts.windows(2).all(|pair| pair[0]["end_s"] == pair[1]["start_s"]));
    assert_eq!(parts.last().unwrap()["end_s"], found["makespan_s"]);
    let text = home.run(measured("--explain --width 160")).success();
    let (_, below) = text.split_once("in use\n").unwrap();
    expect![[r#"
        0              34.05 ms      16.00 ms    2.00 ms        0           0               0    250.00 µs  2.00 ms  25.15 KiB  25.11 KiB
        1              34.05 ms       6.00 ms    1.00 ms        0           0               0     11.25 ms  1.00 ms  25.02 KiB  24.95 KiB

        rank 0  F0---------------F1----------------...................................B0---------------------------.................B1---------------------------.S-----
        rank 1  ....................F0----------------B0---------------------------F1---------------B1---------------------------.................................S-----
                |0 ms          |5 ms         |10 ms         |15 ms        |20 ms         |25 ms        |30 ms         |35 ms        |40 ms         |45 ms        |50 ms

        critical path, 52.298 ms: backward 57.4 %, forward 34.4 %, optimizer 3.9 %, transfer 3.8 %, norm and tied weights 0.5 %
                 0 ms  +6 ms      rank 0  F u0..u1 m0    the step begins
                 6 ms  +1 ms      rank 1  RECV s0>s1 m0  the other end was ready
                 7 ms  +6 ms      rank 1  F u2..u3 m0    its message had arrived
                13 ms  +10 ms     rank 1  B u3..u2 m0    the compute lane was free
                23 ms  +6 ms      rank 1  F u2..u3 m1    the compute lane was free
                29 ms  +10 ms     rank 1  B u3..u2 m1    the compute lane was free
                39 ms  +1 ms      rank 0  RECV s1>s0 m1  the other end was ready
                40 ms  +10 ms     rank 0  B u1..u0 m1    its message had arrived
                50 ms  +0.25 ms   rank 0  GRAD_NORM      the compute lane was free
             50.25 ms  +1.024 ms  rank 0  STEP u0        the compute lane was free
            51.274 ms  +1.024 ms  rank 0  STEP u1        the compute lane was free
    "#]].assert_eq(below);
}

#[test]
fn a_step_becomes_a_picture() {
    let home = Home::new();
    let picture = home.run("simulate run.json --device h100 --format svg").success();
    assert!(
        picture.starts_with("<!-- pipezero simulate -->\n<svg") && picture.trim_end().ends_with("</svg>"),
        "{picture}"
    );
    assert!(
        picture.contains("run.json: step ")
            && picture.contains(" % bubble</title>")
            && picture.contains("activations"),
        "{picture}"
    );
}

/// The picture of the README: times of layers and links come from the run file, and the device is named, so every host draws
/// the same.
#[test]
fn zero_3_in_a_pipeline_is_drawn_as_in_the_documentation() {
    let home = Home::new();
    home.write("timed-overlap.json", include_str!("../../configs/timed-overlap.json"));
    let grid = "--set parallel.pipeline=2 --set parallel.data=4 --set model.num_layers=12";
    let step = "--set gradient_accumulation_steps=4 --set zero_optimization.resident_units=2";
    let picture =
        home.run(format!("simulate timed-overlap.json --device h100 {grid} {step} --format svg")).success();
    expect_file!["../../../docs/pictures/zero-3-1f1b.svg"].assert_eq(&picture);
}

#[test]
fn arguments_that_do_not_go_together_are_errors() {
    Home::new().refuses("simulate", expect![[r#"
        $ --schedule 1f1b --ranks 2 --micro-batches 2 --format chrome --forward 1 --backward-input 1 --backward-weight 1
        [2] error: --format chrome needs a run: a trace is in nanoseconds, and the times of a schedule have no unit; use --format svg, or name a run file of timed layers
        $ --costs costs.json
        [2] error: nothing to simulate: name a run file, or a schedule with --schedule, --forward, --backward-input and --backward-weight and, unless it is a file, --ranks and --micro-batches
        $ run.json --schedule 1f1b
        [2] error: --schedule belongs to a schedule without a model, but RUN.json is a whole run: leave one of them out (change a key with --set)
        $ run.json --latency 1
        [2] error: --latency belongs to a schedule without a model, but RUN.json is a whole run: leave one of them out (change a key with --set)
        $ --schedule 1f1b --device h100
        [2] error: --device belongs to a run, but --schedule is simulated without one: name a run file instead
        $ --schedule 1f1b --set steps=1
        [2] error: --set belongs to a run, but --schedule is simulated without one: name a run file instead
        $ --schedule 1f1b --speed 0=0.5
        [2] error: --speed belongs to a run, but --schedule is simulated without one: name a run file instead
        $ --schedule 1f1b --ranks 2
        [2] error: --micro-batches is missing: a schedule needs ranks, micro-batches and times; add it, or name a run file
        $ run.json --format svg --explain
        [2] error: --explain is printed as text or JSON: leave it out, or use --format text or json
        $ run.json --device b200
        [2] error: --device b200: the known devices are h100, h200, a100, cpu; measure any other with `pipezero profile` and give its file to `pipezero simulate --costs`
    "#]]);
    let alone = Home::new().run("simulate").failure(2);
    assert!(alone.starts_with("error: nothing to simulate: name a run file"), "{alone}");
    let both = Home::new().run("simulate run.json --device h100 --costs costs.json").failure(2);
    assert!(both.contains("'--device <NAME>' cannot be used with '--costs <COSTS.json>'"), "{both}");
}

/// What refuses costs says nothing of their file, so its name is added; a rule of the file has it and the place.
#[test]
fn costs_that_do_not_belong_to_the_run_are_errors() {
    let home = home();
    home.write("half.json", "{");
    home.write("other.json", COSTS.replace("\"version\": 1", "\"version\": 7"));
    home.refuses("simulate run.json --costs", expect![[r#"
        $ nowhere.json
        [2] error: nowhere.json: cannot read the costs file: No such file or directory (os error 2); name one that `pipezero profile` has written
        $ half.json
        [2] error: half.json:1:1: this object is never closed: the text ends before its `}`; mend it, or measure again with `pipezero profile`
        $ other.json
        [2] error: other.json:2:14: `version` is 7, and this pipezero reads 1: measure again with `pipezero profile`
        $ costs.json
        [2] error: costs.json: the costs are of another model: `model` is "timed" there and "gpt2" in the run; measure this one with `pipezero profile`, or leave `--costs` out
    "#]]);
}

/// Peak and memory are those of the data sheet, and `plan` says what `simulate` does.
#[test]
fn a_rank_has_its_share_of_the_peak_and_of_the_memory() {
    let home = Home::new();
    let bf16 = "run.json --device h100 --json --set bf16.enabled=true";
    let found = home.json(format!("simulate {bf16}"));
    let rank = &found["each_rank"];
    let of = |key: &str| rank[key].as_f64().unwrap();
    assert_eq!(of("peak_flops_per_s"), 989.4e12);
    assert_eq!(of("memory_bytes"), 80.0 * 1024_f64.powi(3));
    assert_eq!(of("headroom_bytes"), of("memory_bytes") - of("peak_bytes"));
    assert_eq!(of("mfu"), of("model_flops_per_s") / 989.4e12);
    assert!((of("tokens_per_s") * 4.0 / found["tokens_per_s"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    // Forward and twice as much: 24 N C^2 + 4 N T C for each layer, 2 N C V for the head, with 8 sequences of 16 tokens.
    let (tokens, width, length) = (128.0, 16.0, 16.0);
    let layer = 24.0 * tokens * width * width + 4.0 * tokens * length * width;
    let step_flops = 3.0 * (4.0 * layer + 2.0 * tokens * width * 256.0);
    assert!(
        (of("model_flops_per_s") * 4.0 * found["step_s"].as_f64().unwrap() / step_flops - 1.0).abs() < 1e-9
    );
    assert_eq!(home.json(format!("plan {bf16}"))["predicted"]["each_rank"], *rank);
    // A run's own limit is less.
    let found = home.json(format!("simulate {bf16} --set memory=1GiB"));
    assert_eq!(found["each_rank"]["memory_bytes"], 1 << 30);
}

#[test]
fn nodes_have_another_size_and_a_run_for_other_hosts_asks_for_a_device() {
    let home = Home::new();
    let step = |arguments: &str| {
        home.json(format!("simulate run.json --json --device h100 {arguments}"))["step_s"].as_f64().unwrap()
    };
    let of_run = home.json("simulate run.json --json --device h100 --set comm.ranks_per_node=2");
    assert_eq!(of_run["ranks_per_node"], 2, "{of_run}");
    assert!(step("--ranks-per-node 1") > step("--ranks-per-node 2"));
    assert_eq!(step("--ranks-per-node 4"), step(""));
    let many = "--set parallel.data=4096 --set train_batch_size=16384 --set gradient_accumulation_steps=2";
    home.run(format!("simulate run.json {many} --device h100")).success();
    let error = home.run(format!("simulate run.json {many}")).failure(1);
    assert!(error.contains("This host is not taken for it, as the run's 8192 ranks "), "{error}");
    home.refuses("simulate run.json", expect![[r#"
        $ --device v100
        [2] error: --device v100: the known devices are h100, h200, a100, cpu; measure any other with `pipezero profile` and give its file to `pipezero simulate --costs`
        $ --ranks-per-node 0
        [2] error: invalid value '0' for '--ranks-per-node <N>': 0 is not in 1..=4294967295
        $ --ranks-per-node 2 --set comm={"links":{"near":{"gb_per_s":25}}}
        [2] error: --ranks-per-node is for a device's nodes, but the run has its own: use --set comm.links.ranks_per_node=2
    "#]]);
}
