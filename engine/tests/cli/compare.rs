//! `train --trace` records what happened, `compare` lays it beside what was predicted.

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::Home;
use crate::simulate_run::{COSTS, TIMED, home, measured};

/// A folder with a traced run in `out`.
fn traced() -> Home {
    let home = Home::new();
    home.run("train run.json --out out --trace").success();
    home
}

#[test]
fn steps_after_the_first_are_recorded_and_compared() {
    let home = traced();
    assert_eq!(home.names_in("out/trace"), ["step-000002.json", "step-000003.json"]);
    let text = home.run("compare out").success();
    for table in
        ["its program", "pipeline rank", "peak memory", "UNSHARD, issue and landing", "on the critical path"]
    {
        assert!(text.contains(table), "{text}");
    }
    assert!(text.contains("of 2 traced steps: 2, 3"), "{text}");

    let found = home.json("compare out --json");
    let keys: Vec<&str> = found.as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        "costs steps median_step step program straggling_ns step_overhead ranks kinds path_parts partings";
    assert_eq!(keys.join(" "), expected);
    assert_eq!(found["steps"], json!([2, 3]));
    let step = found["median_step"].as_u64().unwrap();
    let file: Value = serde_json::from_str(&home.read(&format!("out/trace/step-00000{step}.json"))).unwrap();
    // The line of metrics is of the same step, in seconds.
    let metrics: Vec<Value> =
        home.read("out/metrics.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = metrics.iter().find(|line| line["step"] == step && line["kind"].is_null()).unwrap();
    let seconds = file["step_ns"].as_f64().unwrap() / 1e9;
    assert!((line["step_s"].as_f64().unwrap() - seconds).abs() < 1e-9);
    for (rank, compared) in found["ranks"].as_array().unwrap().iter().enumerate() {
        assert_eq!(compared["rank"], rank);
        assert_eq!(compared["peak"]["predicted_bytes"], compared["peak"]["measured_bytes"]);
        for side in ["predicted_ns", "measured_ns"] {
            let waits: u64 =
                compared["bubble"].as_object().unwrap().values().map(|of| of[side].as_u64().unwrap()).sum();
            let busy = compared["busy"][side].as_u64().unwrap();
            assert_eq!(busy + waits, found["program"][side].as_u64().unwrap(), "rank {rank}, {side}");
        }
    }
    // Two micro-batches on each of two data ranks, through four layers and both uses of the tied weight.
    let forward = found["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "F").unwrap();
    assert_eq!(forward["count"], 2 * 2 * (4 + 2));
}

/// `train` leaves the step for viewers of traces, `compare` its prediction beside it.
#[test]
fn both_can_be_looked_at() {
    let home = traced();
    let processes = |name: &str| {
        let trace: Value = serde_json::from_str(&home.read(name)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().clone();
        let named = events.iter().filter(|event| event["name"] == "process_name");
        let names: Vec<String> =
            named.map(|event| event["args"]["name"].as_str().unwrap().to_owned()).collect();
        let slices = events.iter().filter(|event| event["ph"] == "X").count();
        let arrows = events.iter().filter(|event| event["ph"] == "s").count();
        (names, slices, arrows)
    };
    let (names, slices, arrows) = processes("out/trace.json");
    let step = if names[0].starts_with("step 2 ") { 2 } else { 3 };
    assert_eq!(names, ["0.0", "1.0", "0.1", "1.1"].map(|rank| format!("step {step} rank {rank}")));
    let printed = home.run("compare out");
    assert!(printed.stderr.contains("to look at: out/compare.json"), "{}", printed.stderr);
    let (names, more_slices, more_arrows) = processes("out/compare.json");
    assert_eq!(names[..2], ["predicted rank 0", "predicted rank 1"]);
    assert_eq!(names[2..], ["0.0", "1.0", "0.1", "1.1"].map(|rank| format!("measured rank {rank}")));
    // Two data ranks run what one prediction stands for.
    assert_eq!((2 * more_slices, 2 * more_arrows), (3 * slices, 3 * arrows));
    // A compared run is a run still.
    home.run("compare out").success();
    home.run("train run.json --out out --overwrite").success();
    assert!(!home.path("out/trace").exists() && !home.path("out/compare.json").exists());
}

#[test]
fn measured_costs_are_compared_with_the_run() {
    let home = home();
    home.run(format!("train {TIMED} --out out --trace")).success();
    let found = home.json("compare out --costs costs.json --json");
    assert_eq!(found["costs"], "times measured on a machine (2 cores, 4 ranks at work)");
    // The same that `simulate` says.
    let predicted = home.json(measured("--json"));
    assert_eq!(
        found["step"]["predicted_ns"].as_f64().unwrap(),
        (predicted["step_s"].as_f64().unwrap() * 1e9).round()
    );
    assert_eq!(found["step_overhead"]["predicted_ns"], 500_000);
    // A layer waits for 2 ms, on however fast a machine.
    let forward = found["kinds"].as_array().unwrap().iter().find(|kind| kind["kind"] == "F").unwrap();
    assert_eq!(forward["mean"]["predicted_ns"], 3_000_000);
    assert!(forward["mean"]["measured_ns"].as_u64().unwrap() >= 2_000_000);

    home.write("half.json", &COSTS[..COSTS.len() / 2]);
    home.write("other.json", COSTS.replace("_per_layer\": 1000", "_per_layer\": 1001"));
    home.refuses("compare out --costs", expect![[r#"
        $ other.json
        [2] error: other.json: the costs are of another model: `model.timed.parameters_per_layer` is 1001 there and 1000 in the run; measure this one with `pipezero profile`, or leave `--costs` out
        $ half.json
        [2] error: half.json:16:5: this object is never closed: the text ends before its `}`; mend it, or measure again with `pipezero profile`
        $ nowhere.json
        [2] error: nowhere.json: cannot read the costs file: No such file or directory (os error 2); name one that `pipezero profile` has written
    "#]]);
}

#[test]
fn steps_to_record_are_chosen_or_refused() {
    let home = Home::new();
    let train = "train run.json --out out --overwrite --trace --trace-steps";
    home.run(format!("{train} 1..2")).success();
    assert_eq!(home.names_in("out/trace"), ["step-000001.json", "step-000002.json"]);
    // The old steps go with the old run.
    home.run(format!("{train} 3")).success();
    assert_eq!(home.names_in("out/trace"), ["step-000003.json"]);
    home.refuses("train run.json --trace-steps", expect![[r#"
        $ 2..4 --trace --out out --overwrite
        [2] error: steps 2..4 cannot be traced: the run has 3; name steps of it, or leave --trace-steps out
        $ 3..2 --trace
        [2] error: invalid value '3..2' for '--trace-steps <A..B>': write the first and the last step, both from 1 and both traced, as `2..4`; or one step, as `3`
        $ 2..3
        [2] error: the following required arguments were not provided:
          --trace

        Usage: pipezero train --trace --trace-steps <A..B> <RUN.json>
    "#]]);
    // A run of one step has no other.
    home.run("train run.json --out one --trace --set steps=1").success();
    assert!(home.path("one/trace/step-000001.json").is_file());
}

#[test]
fn a_folder_of_steps_with_something_else_in_it_is_not_replaced() {
    let home = traced();
    home.write("out/trace/thesis.txt", "years of work");
    let printed = home.run("train run.json --out out --overwrite").failure(1);
    expect!["error: out is left as it is: it holds `trace/thesis.txt`, which no run wrote; name another folder with --out, or remove it yourself"].assert_eq(printed.lines().last().unwrap());
    assert!(home.path("out/trace/thesis.txt").exists() && home.path("out/metrics.jsonl").exists());
    // It does not stand in the way of reading.
    home.run("compare out").success();
}

/// `compare` refuses the run directory.
#[track_caller]
fn refused(home: &Home, expected: &str) {
    assert_eq!(home.run("compare out").failure(2), format!("error: {expected}\n"));
}

#[test]
fn runs_that_were_not_traced_or_have_not_ended() {
    let home = Home::trained();
    refused(&home, "out/trace: no step was traced; run `pipezero train RUN.json --trace`");
    std::fs::create_dir(home.path("out/trace")).unwrap();
    refused(&home, "out/trace: no step was traced; run `pipezero train RUN.json --trace`");
    let home = traced();
    std::fs::remove_file(home.path("out/summary.json")).unwrap();
    refused(&home, "out: the run has not ended: it has no summary.json; wait for its end, or run it again");
    let none = "out is not a run directory: it has no run.json; name the folder that `pipezero train` wrote";
    refused(&Home::new(), none);
}

#[test]
fn damaged_traces() {
    let home = traced();
    let name = "out/trace/step-000002.json";
    let text = home.read(name);
    let file: Value = serde_json::from_str(&text).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut file = file.clone();
        change(&mut file);
        file.to_string()
    };
    for (damaged, expected) in [
        (
            text[..40].to_owned(),
            ": it is damaged or no trace: line 1, column 40: this string is never closed: the text ends before its `\"`; trace the run again",
        ),
        (
            changed(&|file| file["version"] = json!(7)),
            ": its version is 7, and 1 is what is read here; trace the run again",
        ),
        (
            home.read("out/trace/step-000003.json"),
            " holds step 3: it was renamed, or belongs to another run; trace the run again",
        ),
        // A step of centuries.
        (
            changed(&|file| file["step_ns"] = json!(u64::MAX)),
            ": it is damaged: it lasts 18446744073709551615 ns, and no step is longer than a day, 86400000000000 ns; trace the run again",
        ),
        // A rank's columns are cut short.
        (
            changed(&|file| file["ranks"][2]["ended"].as_array_mut().unwrap().truncate(5)),
            ": it is damaged: rank 2 has 5 times `ended`, and 24 instructions; trace the run again",
        ),
    ] {
        home.write(name, damaged);
        refused(&home, &format!("{name}{expected}"));
    }
    // An instruction that takes time begins when the one before it does.
    let last = file["ranks"][1]["started"].as_array().unwrap().len() - 1;
    home.write(name, changed(&|file| file["ranks"][1]["started"][last] = json!(0)));
    let printed = home.run("compare out").failure(2);
    assert!(printed.starts_with(&format!("error: {name}: it is damaged: rank 1, instruction ")), "{printed}");
    home.write("out/summary.json", "{}");
    home.write(name, &text);
    refused(
        &home,
        "out/summary.json: line 1, column 1: `ranks` is missing; add it; it is damaged: train again",
    );
}

#[test]
fn a_trace_of_another_run() {
    let home = traced();
    let run = home.read("out/run.json");
    home.write("out/run.json", run.replace("\"num_layers\": 4", "\"num_layers\": 6"));
    let printed = home.run("compare out").failure(2);
    let line = printed.lines().last().unwrap();
    assert!(line.starts_with("error: out/trace/step-000002.json: it is of program "), "{line}");
    assert!(line.ends_with("means something else on this host; trace the run again"), "{line}");
}
