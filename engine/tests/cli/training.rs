//! `train` leaves a run directory; `eval` and `generate` read it.

use expect_test::expect;
use serde_json::Value;

use crate::command::Home;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn keys(value: &Value) -> String {
    value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
}

/// The run directory has the list that the plan made, since results depend on it; evaluation reads that. A list may be empty, and
/// then no threshold may count.
#[test]
fn auto_sharding_is_written_down_as_the_list_that_it_became() {
    let auto = "--set zero_optimization.sharding=auto --set zero_optimization.stage3_param_persistence_threshold=1000000";
    let mut lens = Vec::new();
    for sizes in ["", "--set model.num_layers=12 --set parallel.data=4"] {
        let home = Home::new();
        home.run(format!("train run.json --out out {auto} {sizes}")).success();
        let run = json(&home.read("out/run.json"));
        let zero = &run["zero_optimization"];
        assert_eq!(zero["sharding"], "listed");
        lens.push(zero["parameters"].as_array().expect("a list").len());
        let planned = |line: String| home.json(line)["ranks"].clone();
        let asked = planned(format!("plan run.json --json {auto} {sizes}"));
        assert_eq!(asked, planned("plan out/run.json --json".to_owned()), "{zero}");
        home.run("eval out").success();
    }
    assert!(lens[0] > 0 && lens[1] == 0, "{lens:?}");
}

#[test]
fn a_run_leaves_its_file_metrics_weights_and_summary() {
    let home = Home::trained();
    assert_eq!(
        home.names_in("out"),
        ["metrics.jsonl", "run.json", "run.lock", "starts.json", "summary.json", "weights.safetensors"]
    );

    let metrics = home.read("out/metrics.jsonl");
    let lines: Vec<Value> = metrics.lines().map(json).collect();
    let kinds: Vec<_> = lines.iter().map(|line| (line["kind"].as_str(), line["step"].as_u64())).collect();
    let eval = Some("eval");
    // Every two steps, and at the end.
    assert_eq!(kinds, [(None, Some(1)), (None, Some(2)), (eval, Some(2)), (None, Some(3)), (eval, Some(3))]);
    let step = "step epoch loss grad_norm lr tokens tokens_per_s step_s wall_s tflops mfu exposed_comm_s idle_s loss_scale skipped";
    assert_eq!(keys(&lines[0]), step);
    assert_eq!((&lines[0]["tokens"], &lines[0]["lr"]), (&Value::from(8 * 16), &Value::from(0.01)));
    assert_eq!((&lines[0]["mfu"], &lines[0]["loss_scale"]), (&Value::Null, &Value::Null));
    // A step lies between the end of the one before and its own.
    let seconds = |line: &Value, key: &str| line[key].as_f64().unwrap();
    assert_eq!(lines[0]["wall_s"], Value::Null);
    for line in [&lines[1], &lines[3]] {
        assert!(seconds(line, "wall_s") >= seconds(line, "step_s"), "{line}");
    }
    assert_eq!(keys(&lines[2]), "kind step validation_loss tokens");
    // A byte of an untrained model costs ln 256 = 5.5 nats.
    assert!((lines[0]["loss"].as_f64().unwrap() - 5.545).abs() < 0.2, "{}", lines[0]);

    let summary = json(&home.read("out/summary.json"));
    assert_eq!((&summary["steps"], &summary["interrupted"]), (&Value::from(3), &Value::from(false)));
    assert_eq!(summary["training_loss"], lines[3]["loss"]);
    assert_eq!(summary["validation_loss"], lines[4]["validation_loss"]);
    let plan = home.json("plan run.json --json");
    assert_eq!(summary["planned"], plan["ranks"]);
    for (measured, planned) in
        summary["ranks"].as_array().unwrap().iter().zip(plan["ranks"].as_array().unwrap())
    {
        assert_eq!(keys(&measured["memory"]), keys(&planned["memory"]));
        assert_eq!(measured["traffic"], planned["traffic"]);
    }
}

#[test]
fn tables_go_to_stdout_and_progress_to_stderr() {
    let home = Home::new();
    let printed = home.run("train run.json --out out");
    for table in ["nats per token", "tokens/s", "peak memory", "sent per step"] {
        assert!(printed.stdout.contains(table), "{}", printed.stdout);
    }
    for line in [
        "on pipeline 2 x data 2 (4 ranks",
        "step 1/3  loss ",
        "step 2  validation loss ",
        "run directory: out",
    ] {
        assert!(printed.stderr.contains(line), "{}", printed.stderr);
    }
    assert!(!printed.stdout.contains("step 1/3") && !printed.stderr.contains("peak memory"));
}

#[test]
fn a_run_is_overwritten_only_when_asked() {
    let home = Home::trained();
    let weights = || std::fs::read(home.path("out/weights.safetensors")).unwrap();
    let first = weights();
    home.refuses(
        "train run.json --set seed=4 --out",
        expect![[r#"
        $ out
        [1] error: out already exists: go on with --resume, name another folder with --out, or replace it with --overwrite
    "#]],
    );
    assert_eq!(weights(), first);
    home.run("train run.json --set seed=4 --out out --overwrite").success();
    assert_ne!(weights(), first);
    assert_eq!(json(&home.read("out/run.json"))["seed"], 4);
}

/// What it advises is not refused then.
#[test]
fn a_folder_that_is_there_may_be_no_run_directory_or_hold_more() {
    let home = Home::trained();
    std::fs::create_dir(home.path("log")).unwrap();
    for file in ["log/job.log", "out/job.log"] {
        home.write(file, "somebody's");
    }
    home.refuses(
        "train run.json --out",
        expect![[r#"
        $ log
        [1] error: log already exists: it is no run directory; name another folder with --out
        $ out
        [1] error: out already exists: go on with --resume, or name another folder with --out
        $ text.txt
        [1] error: text.txt already exists: it is no run directory; name another folder with --out
    "#]],
    );
    home.run("train run.json --out out --resume").success();
}

#[test]
fn the_default_directory_is_named_after_the_run_file() {
    let home = Home::new();
    home.run("train run.json").success();
    assert!(home.path("runs/run/weights.safetensors").is_file());
}

#[test]
fn an_evaluation_repeats_the_last_validation_of_the_run() {
    let home = Home::trained();
    let summary = json(&home.read("out/summary.json"));
    let table = home.run("eval out").success();
    let figures: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(figures[..2], ["128", &format!("{:.4}", summary["validation_loss"].as_f64().unwrap())]);
    let loss: f64 = figures[1].parse().unwrap();
    // Printed with three and four digits.
    assert!((figures[2].parse::<f64>().unwrap() - loss.exp()).abs() < 1e-3 * loss.exp());
    assert!((figures[3].parse::<f64>().unwrap() - loss / 2.0_f64.ln()).abs() < 1e-3);

    home.write("other.txt", "zebra ".repeat(100));
    let other = home.run("eval out --data other.txt --batches 2").success();
    assert!(other.lines().nth(1).unwrap().starts_with("256 "), "{other}");
}

#[test]
fn generated_text_depends_on_the_seed_alone() {
    let home = Home::trained();
    let text = |extra: &str| {
        let mut generate = home.command(format!("generate out --max-tokens 12 {extra}"));
        let output = generate.args(["--prompt", "the "]).output().unwrap();
        assert!(output.status.success() && output.stderr.starts_with(b"computing in f32 on "));
        assert!(output.stdout.starts_with(b"the ") && output.stdout.ends_with(b"\n"));
        assert_eq!(output.stdout.len(), 4 + 12 + 1);
        output.stdout
    };
    assert_eq!(text("--seed 1"), text("--seed 1"));
    assert_ne!(text("--seed 1"), text("--seed 2"));
    // The likeliest text needs no draws.
    assert_eq!(text("--temperature 0 --seed 1"), text("--temperature 0 --seed 2"));
    assert_eq!(text("--top-k 1 --seed 1"), text("--temperature 0"));
}

#[test]
fn a_prompt_longer_than_the_sequence_counts_with_its_end() {
    let home = Home::trained();
    let generated = |prompt: &str| {
        let mut generate = home.command("generate out --temperature 0 --max-tokens 5");
        let output = generate.args(["--prompt", prompt]).output().unwrap();
        assert!(output.status.success());
        output.stdout[prompt.len()..].to_vec()
    };
    // 16 tokens are a sequence.
    assert_eq!(generated("cats and dogs, the cat sat on a"), generated("the cat sat on a"));
    assert_eq!("the cat sat on a".len(), 16);
}

#[test]
fn arguments_out_of_range_are_errors() {
    Home::trained().refuses("", expect![[r#"
        $ generate out --prompt=
        [2] error: invalid value '' for '--prompt <TEXT>': there is nothing to continue; write at least one character
        $ generate out --prompt a --temperature -1
        [2] error: invalid value '-1' for '--temperature <T>': a temperature is a finite number from 0; write for example 0.8
        $ eval out --batches 0
        [2] error: invalid value '0' for '--batches <N>': write a whole number from 1 to 18446744073709551615, in digits alone
        $ eval out --batches 18446744073709551616
        [2] error: invalid value '18446744073709551616' for '--batches <N>': write a whole number from 1 to 18446744073709551615, in digits alone
        $ eval out --batches 18446744073709551615
        [2] error: --batches is 18446744073709551615, but the data has 63 of 8 sequences, and others would come again; write at most 63, or --all, which scores each sequence once
        $ eval out --batches -1
        [2] error: invalid value '-1' for '--batches <N>': write a whole number from 1 to 18446744073709551615, in digits alone
        $ eval out --step -1
        [2] error: invalid value '-1' for '--step <N>': write a whole number from 0 to 18446744073709551615, in digits alone
        $ generate out --prompt a --seed -1
        [2] error: invalid value '-1' for '--seed <SEED>': write a whole number from 0 to 18446744073709551615, in digits alone
        $ generate out --prompt a --max-tokens -1
        [2] error: invalid value '-1' for '--max-tokens <N>': write a whole number from 0 to 18446744073709551615, in digits alone
        $ generate out --prompts run.json --batch -1
        [2] error: invalid value '-1' for '--batch <N>': write a whole number from 1 to 18446744073709551615, in digits alone
        $ show run.json --format pdf
        [2] error: invalid value 'pdf' for '--format <FORMAT>'
          [possible values: text, csv, program]
    "#]]);
}

#[test]
fn a_run_that_diverges_ends_with_its_step_and_the_state_before_it() {
    let home = Home::with(&[("\"lr\": 0.01", "\"lr\": 1e30")]);
    let printed = home.run("train run.json --out out");
    assert_eq!((printed.status, printed.stdout.as_str()), (Some(1), ""));
    expect!["error: step 2: the loss of micro-batch 0 on rank 2 is not finite (NaN): the first output that is not finite is that of layer h.0.attn (unit u1, rank 0), NaN at token 0 of sequence 0; all weights are finite; no weight was changed; lower the learning rate or look at the data of this step"].assert_eq(printed.stderr.lines().rev().nth(1).unwrap());
    assert_eq!(home.read("out/metrics.jsonl").lines().count(), 1);
    let saved = "the state after step 1 is saved in out: go on with the same command and --resume --out out";
    assert_eq!(printed.stderr.lines().last(), Some(saved));
    assert!(home.path("out/weights.safetensors").exists() && !home.path("out/summary.json").exists());
    assert_eq!(home.names_in("out/checkpoints"), ["step-00000001"]);
}

/// On a host without a GPU, `auto` says so and trains, and `cuda` is one error. With or without, a run is scored on a CPU.
#[test]
fn a_gpu_that_is_missing_is_named() {
    let home = Home::new();
    let automatic = home.run("train run.json --out auto --set device=auto");
    let on = automatic.stderr.lines().find(|line| line.starts_with("computing on: ")).unwrap().to_owned();
    automatic.success();
    let on_cpu = home.run("eval auto --device cpu").success();
    if on.contains("CPU") {
        let reasons = ["no library `libcuda.so`", "the driver knows of none"];
        assert!(reasons.iter().any(|reason| on.contains(&format!("CPU; no GPU: {reason}"))), "{on}");
        assert_eq!(home.run("eval auto").success(), on_cpu);
        for command in ["train run.json --out cuda --set device=cuda", "eval auto --device cuda"] {
            let refused = home.run(command).failure(2);
            assert!(refused.contains("error: `device`: ") && refused.contains("or use \"cpu\""), "{refused}");
        }
        assert!(!home.path("cuda").exists());
    }
}
