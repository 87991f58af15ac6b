//! A master file: several engines in one process, each as it is alone.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::command::{Home, RUN};
use crate::nccl::{fake_gpu, on_gpus, one_job, run};
use crate::signals::{obeying, signalled};

/// ZeRO-3 in f32 on a pipeline with data ranks.
pub(crate) fn first() -> Value {
    serde_json::from_str(RUN).unwrap()
}

/// Other sizes, grid, level, precision, text, schedule of rates, mask of dropout and number of steps.
pub(crate) fn second() -> Value {
    json!({
        "model": { "family": "gpt2", "num_layers": 2, "hidden_size": 24, "num_attention_heads": 3, "seq_length": 8, "dropout": 0.1 },
        "data": { "text": "other.txt", "validation": 0.1 },
        "evaluation": { "every": 3, "batches": 2 },
        "parallel": { "data": 2 },
        "zero_optimization": { "stage": 2 },
        "bf16": { "enabled": true },
        "train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "optimizer": { "type": "AdamW", "params": { "lr": 0.02, "weight_decay": 0.1 } },
        "scheduler": { "type": "WarmupLR", "params": { "warmup_num_steps": 3 } },
        "threads": 1, "steps": 5, "seed": 9
    })
}

/// A pipeline alone, in fp16, with another optimizer.
pub(crate) fn third() -> Value {
    json!({
        "model": { "family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16 },
        "data": { "text": "text.txt", "validation": 0.2 },
        "evaluation": { "every": 0, "batches": 1 },
        "parallel": { "pipeline": 4 },
        "zero_optimization": { "stage": 1 },
        "fp16": { "enabled": true, "initial_scale_power": 8 },
        "train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "optimizer": { "type": "SGD", "params": { "lr": 0.1, "momentum": 0.9 } },
        "threads": 1, "steps": 4, "seed": 5
    })
}

/// A folder with the three run files, and another text.
pub(crate) fn home() -> Home {
    let home = Home::new();
    home.write("first.json", first().to_string());
    home.write("second.json", second().to_string());
    home.write("third.json", third().to_string());
    let words = ["a dog ", "ran to ", "the ", "gate; "];
    let text: Vec<&str> = (0..3000_usize).map(|index| words[(index * index + 3) % 11 % 4]).collect();
    home.write("other.txt", text.concat());
    home
}

/// Writes a master file with a task of these engines, each a run file or the path of one.
pub(crate) fn master(home: &Home, name: &str, engines: &[(&str, Value)]) {
    let names: Vec<&str> = engines.iter().map(|(name, _)| *name).collect();
    // serde's maps are sorted: the order of the file is that of this text.
    let engines: Vec<String> =
        engines.iter().map(|(name, value)| format!("    \"{name}\": {value}")).collect();
    let text = format!(
        "{{\n  \"engines\": {{\n{}\n  }},\n  \"tasks\": {{ \"all\": {{ \"train\": {} }} }}\n}}\n",
        engines.join(",\n"),
        json!(names)
    );
    home.write(name, text);
}

/// The lines of a run's metrics, without times.
pub(crate) fn metrics(home: &Home, run: &str) -> Vec<Value> {
    let lines = home.read(&format!("{run}/metrics.jsonl"));
    let timed = ["tokens_per_s", "step_s", "wall_s", "tflops", "exposed_comm_s", "idle_s"];
    let untimed = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        timed.iter().for_each(|key| drop(value.as_object_mut().unwrap().remove(*key)));
        value
    };
    lines.lines().map(untimed).collect()
}

pub(crate) fn weights(home: &Home, run: &str) -> Vec<u8> {
    fs::read(home.path(&format!("{run}/weights.safetensors"))).unwrap()
}

/// A run's summary, without times.
pub(crate) fn summary(home: &Home, run: &str) -> BTreeMap<String, Value> {
    let text = home.read(&format!("{run}/summary.json"));
    let mut summary: BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
    // Beside times, what the whole process has grown by, which is that of all engines.
    for key in ["tokens_per_s", "step_s", "idle_share", "exposed_comm_share", "loaded_weights", "process"] {
        assert!(summary.remove(key).is_some(), "{key}");
    }
    summary
}

/// Whether two run directories hold the same, to the bit.
#[track_caller]
pub(crate) fn assert_same(home: &Home, one: &str, other: &str) {
    assert_eq!(home.names_in(one), home.names_in(other));
    assert_eq!(metrics(home, one), metrics(home, other), "{one} and {other}");
    assert!(weights(home, one) == weights(home, other), "{one} and {other}");
    assert_eq!(summary(home, one), summary(home, other), "{one} and {other}");
    assert_eq!(home.read(&format!("{one}/run.json")), home.read(&format!("{other}/run.json")));
}

#[test]
fn engines_leave_what_each_leaves_alone_in_any_order_and_by_any_names() {
    let home = home();
    let files = ["first", "second", "third"];
    for file in files {
        home.run(format!("train {file}.json --out alone-{file}")).success();
    }
    // Else the comparisons below would compare a run with itself.
    assert!(weights(&home, "alone-first") != weights(&home, "alone-third"));
    let inline = [first(), second(), third()];
    let path = |file: &str| json!(format!("{file}.json"));
    let cases = [
        [("a", 0, path("first")), ("b", 1, inline[1].clone()), ("c", 2, path("third"))],
        [("c", 2, inline[2].clone()), ("b", 1, path("second")), ("a", 0, inline[0].clone())],
        [("2nd_one", 1, path("second")), ("x.y", 2, path("third")), ("A-0", 0, path("first"))],
    ];
    for (index, case) in cases.into_iter().enumerate() {
        let engines: Vec<(&str, Value)> =
            case.iter().map(|(name, _, value)| (*name, value.clone())).collect();
        master(&home, "all.json", &engines);
        let printed = home.run(format!("train all.json --out out-{index}"));
        let names = case.each_ref().map(|(name, _, _)| *name);
        for name in names {
            assert!(printed.stderr.contains(&format!("\n{name}: step 1/")), "{}", printed.stderr);
        }
        let stdout = printed.success();
        for name in names {
            assert!(stdout.contains(&format!("\nengine {name}\n\nnats per token ")), "{stdout}");
        }
        // The table of all, in the order of the task.
        let table = stdout.split("\nengine   ").nth(1).or(stdout.split("\nengine  ").nth(1)).unwrap();
        let rows: Vec<&str> = table.lines().skip(1).map(|row| row.split(' ').next().unwrap()).collect();
        assert_eq!(rows, names, "{stdout}");
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        assert_eq!(home.names_in(&format!("out-{index}")), sorted);
        for (name, file, _) in case {
            assert_same(&home, &format!("alone-{}", files[file]), &format!("out-{index}/{name}"));
        }
    }
    // Readable as what a run alone leaves.
    assert_eq!(home.run("eval out-0/b").success(), home.run("eval alone-second").success());
    let generated = home.command("generate out-0/a --prompt cat --max-tokens 4").output().unwrap();
    assert!(generated.status.success() && generated.stdout.starts_with(b"cat"), "{generated:?}");
}

/// A pair of which the first has an engine's own steps, and the second others.
pub(crate) fn pair(home: &Home, steps: [u64; 2], checkpoint: &Value) {
    let with = |mut run: Value, steps: u64| {
        run["steps"] = steps.into();
        run["checkpoint"] = checkpoint.clone();
        run
    };
    master(home, "pair.json", &[("left", with(first(), steps[0])), ("right", with(second(), steps[1]))]);
}

#[test]
fn a_signal_ends_all_engines_after_the_same_step_and_resume_goes_on_as_if_it_had_not() {
    let home = home();
    pair(&home, [1_000_000, 1_000_000], &json!({}));
    let command = obeying("TERM", &home, "train pair.json --out out");
    let (status, stdout, rest) = signalled(command, "TERM", "right: step 1/1000000");
    assert_eq!(status, Some(0), "{rest}");
    let steps = ["left", "right"].map(|engine| {
        let summary: Value = serde_json::from_str(&home.read(&format!("out/{engine}/summary.json"))).unwrap();
        assert_eq!(summary["interrupted"], true, "{engine}");
        let step = summary["steps"].as_u64().unwrap();
        assert_eq!(home.names_in(&format!("out/{engine}/checkpoints")), [format!("step-{step:08}")]);
        step
    });
    assert_eq!(steps[0], steps[1]);
    let [step, _] = steps;
    let ended = format!(
        "ended left after step {step}, right after step {step}; the same command with --resume goes on"
    );
    assert!(rest.contains(&ended) && stdout.contains("\nengine right\n"), "{rest}");
    // One goes on for longer than the other.
    let set = format!("--set engines.left.steps={} --set engines.right.steps={}", step + 3, step + 1);
    let resumed = home.run(format!("train pair.json --out out --resume {set}"));
    assert_eq!(
        resumed.stderr.matches(&format!("the run goes on after step {step}\n")).count(),
        2,
        "{}",
        resumed.stderr
    );
    assert!(resumed.stderr.contains("\nsince the checkpoint: steps 1000000 -> "), "{}", resumed.stderr);
    resumed.success();
    home.run(format!("train pair.json --out whole {set}")).success();
    for engine in ["left", "right"] {
        assert!(
            weights(&home, &format!("out/{engine}")) == weights(&home, &format!("whole/{engine}")),
            "{engine}"
        );
        // The evaluation of the interrupted end is one more line.
        let steps_of = |run: &str| -> Vec<Value> {
            metrics(&home, &format!("{run}/{engine}"))
                .into_iter()
                .filter(|line| line["kind"].is_null())
                .collect()
        };
        assert_eq!(steps_of("out"), steps_of("whole"), "{engine}");
    }
}

/// Engines that were stopped at different steps each go on from their own newest checkpoint; one that is done stays as it is.
#[test]
fn each_engine_resumes_from_its_own_newest_checkpoint() {
    let home = home();
    pair(&home, [5, 5], &json!({ "every": 1, "keep": 9 }));
    home.run("train pair.json --out whole").success();
    home.run("train pair.json --out out --set engines.left.steps=3").success();
    // As if it had been killed after its second step, and the other after its last.
    fs::remove_dir_all(home.path("out/left/checkpoints/step-00000003")).unwrap();
    fs::remove_file(home.path("out/left/summary.json")).unwrap();
    let before = home.read("out/right/summary.json");
    let resumed = home.run("train pair.json --out out --resume");
    assert!(
        resumed.stderr.contains("out/right has done all 5 steps: nothing is left to resume\n"),
        "{}",
        resumed.stderr
    );
    assert!(resumed.stderr.contains("the run goes on after step 2\n"), "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("engine right"), "{}", resumed.stderr);
    resumed.success();
    assert_eq!(home.read("out/right/summary.json"), before, "it was not touched");
    for engine in ["left", "right"] {
        assert!(
            weights(&home, &format!("out/{engine}")) == weights(&home, &format!("whole/{engine}")),
            "{engine}"
        );
        assert_eq!(metrics(&home, &format!("out/{engine}")), metrics(&home, &format!("whole/{engine}")));
    }
    let done = home.run("train pair.json --out out --resume");
    assert_eq!(done.stderr.matches("nothing is left to resume").count(), 2, "{}", done.stderr);
    assert_eq!(done.success(), "");
}

/// The others are ended as a signal would end them, and the pair goes on once the cause is gone.
#[test]
fn an_engine_that_fails_is_named_and_the_others_keep_their_state() {
    let home = home();
    pair(&home, [6, 6], &json!({}));
    home.run("train pair.json --out whole").success();
    for (failing, other) in [("left", "right"), ("right", "left")] {
        // A rate beyond all bounds leaves no finite loss.
        let out = format!("out-{failing}");
        let line = format!(
            "train pair.json --out {out} --set engines.{failing}.optimizer.params.lr=1e30 --set engines.{failing}.evaluation.every=0"
        );
        let error = home.run(&line).failure(1);
        let error = &error[error.find("error: ").unwrap()..];
        assert!(error.starts_with(&format!("error: engine `{failing}`: step ")), "{error}");
        assert!(error.contains(" is not finite (") && error.contains("; no weight was changed;"), "{error}");
        assert!(
            error.contains("\nits state after step ")
                && error.contains(&format!(" is saved in {out}/{failing}\n")),
            "{error}"
        );
        let step = home.names_in(&format!("{out}/{other}/checkpoints")).pop().unwrap();
        let step: u64 = step.strip_prefix("step-").unwrap().parse().unwrap();
        assert!(
            error.contains(&format!(
                "\nengine `{other}`: it was ended after step {step}, with a checkpoint\n"
            )),
            "{error}"
        );
        // The weights of the one that failed are beyond repair: it starts anew.
        fs::remove_dir_all(home.path(&format!("{out}/{failing}"))).unwrap();
        home.run(format!("train pair.json --out {out} --resume")).success();
        let name = |folder: &str| format!("{folder}/{other}");
        assert!(weights(&home, &name(&out)) == weights(&home, &name("whole")), "{other}");
    }
}

/// Of an engine that has not done a step nothing is left that would keep --resume from starting it.
#[test]
fn an_engine_without_a_step_is_left_to_start() {
    let home = home();
    master(&home, "pair.json", &[("left", third()), ("right", second())]);
    home.run("train pair.json --out whole").success();
    // A loss scale with which every gradient overflows, and which may not be lowered.
    let scale = 2_f64.powi(100);
    let line = format!(
        "train pair.json --out out --set engines.left.fp16.initial_scale_power=100 --set engines.left.fp16.hysteresis=1 --set engines.left.fp16.min_loss_scale={scale:e}"
    );
    let error = home.run(line).failure(1);
    assert!(error.contains("error: engine `left`: step 1 overflowed in fp16"), "{error}");
    assert!(error.contains("\nengine `right`: it had not done a step since this start\n"), "{error}");
    home.run("train pair.json --out out --resume").success();
    for engine in ["left", "right"] {
        assert!(
            weights(&home, &format!("out/{engine}")) == weights(&home, &format!("whole/{engine}")),
            "{engine}"
        );
    }
}

#[test]
fn engines_that_a_task_does_not_use_cost_nothing() {
    let home = home();
    let broken = json!({ "steps": "many" });
    let text = json!({
        "engines": { "one": "first.json", "broken": broken, "absent": "nowhere.json" },
        "tasks": { "good": { "train": ["one"] }, "bad": { "train": ["one", "broken", "absent"] } }
    });
    home.write("master.json", text.to_string());
    home.run("train master.json --task good --out out").success();
    assert_eq!(home.names_in("out"), ["one"]);
    let refused = home.run("train master.json --task bad --out bad").failure(2);
    assert!(
        refused.contains("`engines.broken.steps` must be ")
            && refused.contains("`engines.absent`: nowhere.json: cannot read"),
        "{refused}"
    );
    assert!(!home.path("bad").exists());
    // `check` looks at all of them.
    let checked = home.run("check master.json").failure(2);
    assert!(checked.contains("`engines.broken.steps`") && checked.contains("`engines.absent`"), "{checked}");
}

#[test]
fn weights_to_begin_with_are_given_by_engine() {
    let home = home();
    pair(&home, [2, 2], &json!({}));
    home.run("train first.json --out begun").success();
    home.run("train pair.json --out out --init left=begun --set engines.left.optimizer.params.lr=0")
        .success();
    assert!(weights(&home, "out/left") == weights(&home, "begun"));
    home.run("train pair.json --out plain").success();
    assert!(weights(&home, "out/right") == weights(&home, "plain/right"));
}

/// No machine has a million times the memory of this one.
#[test]
fn engines_that_do_not_fit_together_are_refused_with_each_share() {
    let home = home();
    pair(&home, [2, 2], &json!({}));
    let huge = "--set engines.left.model.hidden_size=4194304 --set engines.right.model.hidden_size=6291456";
    let error = home.run(format!("train pair.json --out out {huge}")).failure(1);
    let (needed, available) = error[error.find("error: ").unwrap()..].split_once(", but ").unwrap();
    expect_test::expect!["error: the engines together need 49.97 PiB of memory (left: 24.05 PiB, ranks: 4; right: 25.93 PiB, ranks: 2)"].assert_eq(needed);
    assert!(
        available.contains(" is available on this host or to its control group; name fewer of them"),
        "{available}"
    );
    assert!(!home.path("out").exists());
}

#[test]
fn steps_of_every_engine_are_traced() {
    let home = home();
    pair(&home, [3, 4], &json!({}));
    let printed = home.run("train pair.json --trace --out out");
    assert!(printed.stderr.contains("\ntraced; try: pipezero compare out/left\n"), "{}", printed.stderr);
    printed.success();
    for (engine, num_steps) in [("left", 2), ("right", 3)] {
        assert_eq!(home.names_in(&format!("out/{engine}/trace")).len(), num_steps, "{engine}");
        assert!(home.path(&format!("out/{engine}/trace.json")).exists(), "{engine}");
    }
}

#[test]
fn the_example_of_a_pair_trains() {
    let home = Home::new();
    let config = format!("{}/configs/pair.json", env!("CARGO_MANIFEST_DIR"));
    let stdout = home.run(format!("train {config} --out out")).success();
    assert!(stdout.contains("\nengine deep\n") && stdout.contains("\nengine wide\n"), "{stdout}");
    assert_eq!(home.names_in("out"), ["deep", "wide"]);
    let checked = home.run(format!("check {config}"));
    assert!(!checked.stderr.contains("warning") && !checked.stderr.contains("hint"), "{}", checked.stderr);
    checked.success();
}

#[test]
fn the_example_of_a_distillation_trains() {
    let home = Home::new();
    let config = format!("{}/configs/distill.json", env!("CARGO_MANIFEST_DIR"));
    home.run(format!("train {config} --task teach --out out")).success();
    home.run(format!("train {config} --task distill --init large=out/large --out out")).success();
    assert_eq!(home.names_in("out"), ["large", "small"]);
    // What its own run file says has no effect where an engine teaches, and is said in full.
    let checked = home.run(format!("check {config}"));
    assert_eq!(checked.stderr.matches("hint: `engines.large.").count(), 6, "{}", checked.stderr);
    // The other task writes them.
    assert_eq!(checked.stderr.matches("hint: `tasks.distill.init.large`: there is no").count(), 1);
    let words: Vec<&str> = checked.stderr.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("yet: `train` of another task may write it, and this one needs it"), "{words}");
    assert!(
        !checked.stderr.contains("prints in full") && !checked.stderr.contains("warning"),
        "{}",
        checked.stderr
    );
    checked.success();
}

/// The figures of each engine are those of its own plan.
#[test]
fn plan_and_check_show_every_engine() {
    let home = home();
    pair(&home, [2, 2], &json!({}));
    let alone = ["first", "second"].map(|file| home.json(format!("plan {file}.json --json")));
    let both = home.json("plan pair.json --task all --json");
    assert_eq!(
        [&both["engines"]["left"]["ranks"], &both["engines"]["right"]["ranks"]],
        [&alone[0]["ranks"], &alone[1]["ranks"]]
    );
    let peaks = |plan: &Value| -> Vec<u64> {
        plan["ranks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rank| rank["memory"]["peak"].as_u64().unwrap())
            .collect()
    };
    let [left, right] = alone.each_ref().map(peaks);
    let ranks: Vec<u64> = (0..4).map(|rank| left[rank] + right.get(rank).unwrap_or(&0)).collect();
    let all: u64 = left.iter().chain(&right).sum();
    assert_eq!(both["together"], json!({ "ranks": ranks, "all": all }));
    let text = home.run("plan pair.json").success();
    let table = &text[text.find("peak memory together").unwrap()..];
    expect_test::expect![[r#"
        peak memory together        left       right    together
        each of ranks 0-1     332.12 KiB  321.94 KiB  654.06 KiB
        each of ranks 2-3     206.00 KiB           -  206.00 KiB
        all ranks               1.05 MiB  643.88 KiB    1.68 MiB
        of a rank: what a GPU holds of all engines if each of their ranks has one; of all ranks: what a host holds that has all of them
    "#]].assert_eq(table);
    let checked = home.run("check pair.json").success();
    let end = &checked[checked.find("task all").unwrap()..];
    expect_test::expect![[r#"
        task all: trains left, right; 1.68 MiB of memory in all
        pair.json is a valid master file: 2 engines, 1 task
    "#]]
    .assert_eq(end);
    let runs = home.json("check pair.json --json");
    assert_eq!(runs["engines"]["right"], home.json("check second.json --json --set steps=2"));
}

/// On fake GPUs, which the ranks of both engines share: the first two have a rank of each.
#[test]
fn engines_share_gpus_and_what_does_not_fit_on_one_is_refused_with_each_share() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = home();
    pair(&home, [3, 4], &json!({}));
    let set = |engine: &str| format!("--set {engine}device=cuda --set {engine}comm.backend=threads");
    let alone = |file: &str, steps: u64, memory_bytes: &str| {
        let line = format!("train {file}.json --out {file} --overwrite --set steps={steps} {}", set(""));
        let mut command = on_gpus(&home, libraries, &line);
        run(&home, {
            command.env("FAKE_GPU_MEMORY_BYTES", memory_bytes);
            command
        })
        .success();
    };
    let both = format!("train pair.json --out out {} {}", set("engines.left."), set("engines.right."));
    // Enough for each alone, and not for both.
    let little = "500000";
    alone("first", 3, little);
    alone("second", 4, little);
    let mut command = on_gpus(&home, libraries, &both);
    command.env("FAKE_GPU_MEMORY_BYTES", little);
    expect_test::expect![[r#"

        pair.json:3:257: warning: `engines.left.zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 1: it needs 206.00 KiB there, ZeRO-1 on the same grid 177.00 KiB, and it sends 55.78 KiB in a step, ZeRO-1 41.28 KiB; use "stage": 1
        error: the engines together need 675.59 KiB of memory (left: 348.12 KiB, ranks: 1; right: 327.47 KiB, ranks: 1), but 360.28 KiB is available of 488.28 KiB on GPU 0 (fake GPU 0); nvidia-smi lists the processes that hold some of it, and `device` "cpu" takes the host's; name fewer of them in a task, or lower what one needs, as `pipezero plan` of its run file says
    "#]].assert_eq(&run(&home, command).failure(1));
    assert!(!home.path("out").exists());
    run(&home, on_gpus(&home, libraries, &both)).success();
    for (engine, file) in [("left", "first"), ("right", "second")] {
        assert!(weights(&home, &format!("out/{engine}")) == weights(&home, file), "{engine}");
        assert_eq!(metrics(&home, &format!("out/{engine}")), metrics(&home, file));
    }
}
