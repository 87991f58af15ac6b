//! Distillation in a master file: a student that is trained on what a teacher says of its batches.

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::Home;
use crate::several::{metrics, summary, weights};

/// What the student says of itself: ZeRO-2 in bf16 on two data ranks.
pub(crate) fn student() -> Value {
    json!({
        "model": { "family": "gpt2", "num_layers": 2, "hidden_size": 24, "num_attention_heads": 3, "seq_length": 16, "dropout": 0.1 },
        "data": { "text": "text.txt", "validation": 0.2, "seq_lengths": [16, 9, 4] },
        "evaluation": { "every": 2, "batches": 1 },
        "parallel": { "data": 2 },
        "zero_optimization": { "stage": 2 },
        "bf16": { "enabled": true },
        "train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        "optimizer": { "type": "AdamW", "params": { "lr": 0.01 } },
        "checkpoint": { "every": 2 },
        "threads": 1, "steps": 4, "seed": 9
    })
}

/// The teacher: the model of [`RUN`], on this grid and level, without a word on learning.
pub(crate) fn teacher(pipeline: usize, data: usize, stage: usize) -> Value {
    json!({
        "model": { "family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16 },
        "parallel": { "pipeline": pipeline, "data": data },
        "zero_optimization": { "stage": stage },
        "threads": 1
    })
}

/// A folder with a trained teacher in `taught` and a student's run file.
pub(crate) fn home() -> Home {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    home.write("student.json", student().to_string());
    home
}

/// The text of a master file with these engines, in this order, and one task.
pub(crate) fn master(engines: &[(&str, Value)], task: &str) -> String {
    // serde's maps are sorted: the order of the file is that of this text.
    let engines: Vec<String> =
        engines.iter().map(|(name, value)| format!("    \"{name}\": {value}")).collect();
    format!(
        "{{\n  \"engines\": {{\n{}\n  }},\n  \"tasks\": {{ \"learn\": {task} }}\n}}\n",
        engines.join(",\n")
    )
}

/// A task in which `large` teaches `small`.
pub(crate) fn task(temperature: f64, alpha: f64) -> String {
    let distill =
        json!({ "student": "small", "teacher": "large", "temperature": temperature, "alpha": alpha });
    json!({ "distill": distill, "init": { "large": "taught" } }).to_string()
}

pub(crate) fn write_master(home: &Home, name: &str, of_teacher: Value, task: &str) {
    home.write(name, master(&[("small", json!("student.json")), ("large", of_teacher)], task));
}

/// The losses of steps, and of evaluations.
fn losses(home: &Home, run: &str) -> (Vec<Value>, Vec<Value>) {
    let lines = metrics(home, run);
    let of = |key: &str| lines.iter().filter_map(|line| line.get(key)).cloned().collect();
    (of("loss"), of("validation_loss"))
}

#[test]
fn a_student_learns_whatever_the_grid_and_the_name_of_its_teacher() {
    let home = home();
    write_master(&home, "first.json", teacher(2, 1, 3), &task(2.0, 0.5));
    let printed = home.run("train first.json --out first");
    let said = printed.stderr.clone();
    printed.success();
    // The teacher leaves nothing.
    assert_eq!(home.names_in("first"), ["small"]);
    for (number, (pipeline, data, stage)) in
        [(1, 1, 0), (1, 4, 2), (2, 2, 3), (4, 1, 1)].into_iter().enumerate()
    {
        let name = format!("grid-{number}");
        write_master(&home, &format!("{name}.json"), teacher(pipeline, data, stage), &task(2.0, 0.5));
        home.run(format!("train {name}.json --out {name}")).success();
        assert_eq!(metrics(&home, &format!("{name}/small")), metrics(&home, "first/small"), "{name}");
        assert!(weights(&home, &format!("{name}/small")) == weights(&home, "first/small"), "{name}");
    }
    // Other names, another order, the run file in the master file, and another that nobody uses and that is not read.
    let distill = json!({ "student": "z", "teacher": "a", "temperature": 2, "alpha": 0.5 });
    let renamed = master(
        &[("a", teacher(2, 1, 3)), ("unused", json!("nowhere.json")), ("z", student())],
        &json!({ "init": { "a": "taught/weights.safetensors" }, "distill": distill }).to_string(),
    );
    home.write("renamed.json", renamed);
    home.run("train renamed.json --out renamed").success();
    assert_eq!(metrics(&home, "renamed/z"), metrics(&home, "first/small"));
    assert!(weights(&home, "renamed/z") == weights(&home, "first/small"));
    for rank in summary(&home, "first/small")["ranks"].as_array().unwrap() {
        let planned = &summary(&home, "first/small")["planned"][rank["rank"].as_u64().unwrap() as usize];
        assert_eq!(rank["memory"], planned["memory"], "measured beside planned");
    }
    // The process was planned to hold the teacher too, and the logits.
    let planned = home.json("plan first.json --json");
    let summary_json: Value = serde_json::from_str(&home.read("first/small/summary.json")).unwrap();
    let process = &summary_json["process"];
    assert_eq!(process["planned_bytes"], planned["together"]["all"], "{process}");
    assert!(process["teacher_bytes"].as_u64() > planned["together"]["logits"].as_u64(), "{process}");
    home.run("train first.json --out first --overwrite --trace").success();
    let compared = home.run("compare first/small");
    assert!(compared.stderr.contains("the run learned from a teacher"), "{}", compared.stderr);
    compared.success();
    // Alone, the student is another; with alpha 0 it is the same, to the bit, and so are all its losses.
    home.run("train student.json --out alone").success();
    write_master(&home, "hard.json", teacher(2, 1, 3), &task(2.0, 0.0));
    home.run("train hard.json --out hard").success();
    assert_eq!(metrics(&home, "hard/small"), metrics(&home, "alone"));
    assert!(weights(&home, "hard/small") == weights(&home, "alone"));
    let (soft, alone) = (losses(&home, "first/small"), losses(&home, "alone"));
    assert!(soft.0 != alone.0 && soft.1 != alone.1);
    assert_eq!((soft.0.len(), soft.1.len()), (4, 2));
    for line in metrics(&home, "first/small") {
        let [cross_entropy, divergence] =
            ["cross_entropy", "divergence"].map(|part| line["loss_parts"][part].as_f64());
        match line["loss"].as_f64() {
            Some(loss) => {
                let sum = 0.5 * cross_entropy.unwrap() + 0.5 * 4.0 * divergence.unwrap();
                assert!((loss - sum).abs() < 1e-12, "{line}");
            }
            // No teacher takes part in an evaluation.
            None => {
                assert_eq!((cross_entropy, divergence), (line["validation_loss"].as_f64(), None), "{line}")
            }
        }
    }
    assert!(said.contains("cross entropy ") && said.contains(", divergence "), "{said}");
    // What it leaves is a run like any other: its validation loss is cross-entropy.
    let validation = summary(&home, "first/small")["validation_loss"].as_f64().unwrap();
    let evaluated = home.run("eval first/small").success();
    assert!(evaluated.contains(&format!("{validation:.4}")), "{evaluated} has no {validation}");
}

#[test]
fn an_interrupted_student_goes_on_to_the_same_bits() {
    let home = home();
    write_master(&home, "master.json", teacher(2, 1, 3), &task(3.0, 0.7));
    home.run("train master.json --out whole").success();
    home.run("train master.json --out parts --set engines.small.steps=2").success();
    let said = home.run("train master.json --out parts --resume");
    assert!(said.stderr.contains("the run goes on after step 2"), "{}", said.stderr);
    said.success();
    assert_eq!(losses(&home, "parts/small").0, losses(&home, "whole/small").0);
    assert!(weights(&home, "parts/small") == weights(&home, "whole/small"));
    // All steps are done: the teacher is not even started.
    let said = home.run("train master.json --out parts --resume");
    assert!(said.stderr.contains("nothing is left to resume"), "{}", said.stderr);
    // A task's weights for a student count once, where it begins.
    let distill = json!({ "student": "small", "teacher": "large", "temperature": 3, "alpha": 0.7 });
    let inits = json!({ "large": "taught", "small": "whole/small" });
    write_master(
        &home,
        "again.json",
        teacher(1, 2, 0),
        &json!({ "distill": distill, "init": inits }).to_string(),
    );
    home.run("train again.json --out again").success();
    home.run("train again.json --out again-parts --set engines.small.steps=2").success();
    home.run("train again.json --out again-parts --resume").success();
    assert!(weights(&home, "again-parts/small") == weights(&home, "again/small"));
    assert!(weights(&home, "again/small") != weights(&home, "whole/small"));
}

#[test]
fn plan_and_check_say_what_both_take_with_the_logits() {
    let home = home();
    let mut of_teacher = teacher(2, 1, 3);
    of_teacher["steps"] = json!(9);
    of_teacher["optimizer"] = json!({ "type": "SGD", "params": { "lr": 1 } });
    write_master(&home, "master.json", of_teacher, &task(2.0, 0.5));
    let plan = home.run("plan master.json").success();
    let of_teacher = &plan[plan.find("engine large").unwrap()..];
    expect![[r#"
        engine large
        computes the logits of small's batches: 17.5 k parameters on pipeline 2 x data 1 (2 ranks), f32, on each data rank 4 micro-batches of 2 sequences
        memory per rank  parameters   gathered  gradients  optimizer  activations  communication        peak
        pipeline rank 0   55.44 KiB  29.81 KiB        0 B        0 B   155.62 KiB            0 B  240.88 KiB
        pipeline rank 1   28.94 KiB  28.94 KiB        0 B        0 B    80.50 KiB       4.00 KiB  142.38 KiB
        logits of a batch: 4 bytes x 8 sequences x 16 tokens x vocabulary 256 = 128.00 KiB on this host; those of a micro-batch, 32.00 KiB, on each rank with the head

        peak memory together       small       large    together
        rank 0                628.50 KiB  240.88 KiB  869.38 KiB
        rank 1                628.50 KiB  174.38 KiB  802.88 KiB
        logits of a batch              -  128.00 KiB  128.00 KiB
        all ranks               1.23 MiB  543.25 KiB    1.76 MiB
        of a rank: what a GPU holds of all engines if each of their ranks has one; of all ranks: what a host holds that has all of them
    "#]].assert_eq(of_teacher);
    let checked = home.run("check master.json");
    expect![[r#"

        student.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        student.json:1:1: hint: `activation_checkpointing.head_logits`: the loss, a distillation's or one of the model's own, reads whole rows of logits, so they are kept, 32.75 KiB with what it saves of each row for each micro-batch in flight on the last stage, and the table of lm_head is not cut: "recompute" and slices are for cross-entropy alone

        master.json:4:200: hint: `engines.large.steps`: no effect here: this engine computes logits of `small`'s batches, and is not trained
        master.json:4:202: hint: `engines.large.optimizer`: no effect here: this engine computes logits of `small`'s batches, and is not trained
        master.json:4:177: warning: `engines.large.zero_optimization.stage`: the data degree is 1, so ZeRO-3 has nothing left to shard: all 17504 parameters stay whole
    "#]].assert_eq(&checked.stderr);
    let stdout = checked.success();
    expect![[r#"
        engine large
        computes the logits of small's batches: 17.5 k parameters on pipeline 2 x data 1 (2 ranks), f32, on each data rank 4 micro-batches of 2 sequences
        memory per rank  parameters   gathered  gradients  optimizer  activations  communication        peak
        pipeline rank 0   55.44 KiB  29.81 KiB        0 B        0 B   155.62 KiB            0 B  240.88 KiB
        pipeline rank 1   28.94 KiB  28.94 KiB        0 B        0 B    80.50 KiB       4.00 KiB  142.38 KiB
        logits of a batch: 4 bytes x 8 sequences x 16 tokens x vocabulary 256 = 128.00 KiB on this host; those of a micro-batch, 32.00 KiB, on each rank with the head

        task learn: trains small on the logits of large; 1.76 MiB of memory in all
        master.json is a valid master file: 2 engines, 1 task
    "#]].assert_eq(&stdout[stdout.find("engine large").unwrap()..]);
    let json = home.json("plan master.json --json");
    let together = &json["together"];
    // 8 sequences of 16 tokens and 256 bytes of the alphabet.
    assert_eq!(together["logits"], 4 * 8 * 16 * 256);
    let of_ranks: u64 =
        together["ranks"].as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(together["all"].as_u64().unwrap(), of_ranks + 4 * 8 * 16 * 256);
    assert_eq!(json["engines"]["large"]["ranks"][0]["memory"]["optimizer"], 0);
}

/// Rules of gradients and of the memory of an optimizer are not for a teacher: it is valid where a run that trains is refused, and teaches the same.
#[test]
fn a_teacher_is_not_judged_as_an_engine_that_trains() {
    let home = home();
    write_master(&home, "reference.json", teacher(1, 1, 0), &task(2.0, 0.5));
    home.run("train reference.json --out reference").success();
    let planned: Value = serde_json::from_str(&home.run("plan reference.json --json").success()).unwrap();
    let peak = planned["engines"]["large"]["ranks"][0]["memory"]["peak"].as_u64().unwrap();
    let with = |pipeline, zero: Value, more: Value| {
        let mut of = teacher(pipeline, 1, 0);
        of["zero_optimization"] = zero;
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of
    };
    let refused_if_trained = [
        (2, "ZeRO-2 is incompatible", with(2, json!({ "stage": 2 }), json!({}))),
        (2, "one unit for all layers", with(2, json!({ "stage": 3, "unit_layers": "stage" }), json!({}))),
        (
            2,
            "which is ZeRO-2",
            with(2, json!({ "stage": 3, "stage3_param_persistence_threshold": 1e5 }), json!({})),
        ),
        (1, "`memory` gives each rank", with(1, json!({ "stage": 0 }), json!({ "memory": peak }))),
    ];
    for (number, (status, why, large)) in refused_if_trained.into_iter().enumerate() {
        let mut alone = large.clone();
        alone["data"] = json!({ "text": "text.txt" });
        alone["train_batch_size"] = json!(8);
        alone["train_micro_batch_size_per_gpu"] = json!(2);
        alone["steps"] = json!(1);
        home.write("alone.json", alone.to_string());
        let refused = home.run("check alone.json").failure(status);
        assert!(refused.replace('\n', " ").contains(why), "{why}: {}", refused);
        write_master(&home, "task.json", large, &task(2.0, 0.5));
        home.run("check task.json").success();
        let out = format!("taught-{number}");
        home.run(format!("train task.json --out {out}")).success();
        assert_eq!(losses(&home, &format!("{out}/small")), losses(&home, "reference/small"), "{why}");
    }
    write_master(
        &home,
        "task.json",
        with(1, json!({ "stage": 0 }), json!({ "memory": peak / 2 })),
        &task(2.0, 0.5),
    );
    home.run("check task.json").failure(1);
}
