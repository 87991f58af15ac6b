//! Distillation in a master file: a student that is trained on what a teacher says of its batches.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::{Home, RUN};
use crate::several::{metrics, summary, weights};

/// What the student says of itself: ZeRO-2 in bf16 on two data ranks.
fn student() -> Value {
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
fn teacher(pipeline: usize, data: usize, stage: usize) -> Value {
    json!({
        "model": { "family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16 },
        "parallel": { "pipeline": pipeline, "data": data },
        "zero_optimization": { "stage": stage },
        "threads": 1
    })
}

/// A folder with a trained teacher in `taught` and a student's run file.
fn home() -> Home {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    home.write("student.json", student().to_string());
    home
}

/// The text of a master file with these engines, in this order, and one task.
fn master(engines: &[(&str, Value)], task: &str) -> String {
    // serde's maps are sorted: the order of the file is that of this text.
    let engines: Vec<String> =
        engines.iter().map(|(name, value)| format!("    \"{name}\": {value}")).collect();
    format!(
        "{{\n  \"engines\": {{\n{}\n  }},\n  \"tasks\": {{ \"learn\": {task} }}\n}}\n",
        engines.join(",\n")
    )
}

/// A task in which `large` teaches `small`.
fn task(temperature: f64, alpha: f64) -> String {
    let distill =
        json!({ "student": "small", "teacher": "large", "temperature": temperature, "alpha": alpha });
    json!({ "distill": distill, "init": { "large": "taught" } }).to_string()
}

fn write_master(home: &Home, name: &str, of_teacher: Value, task: &str) {
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
    home.run("train first.json --out first").success();
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
    // Alone, the student is another; with alpha 0 it is the same, to the bit, and so are all its losses.
    home.run("train student.json --out alone").success();
    write_master(&home, "hard.json", teacher(2, 1, 3), &task(2.0, 0.0));
    home.run("train hard.json --out hard").success();
    assert_eq!(metrics(&home, "hard/small"), metrics(&home, "alone"));
    assert!(weights(&home, "hard/small") == weights(&home, "alone"));
    let (soft, alone) = (losses(&home, "first/small"), losses(&home, "alone"));
    assert!(soft.0 != alone.0 && soft.1 != alone.1);
    assert_eq!((soft.0.len(), soft.1.len()), (4, 2));
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

        student.json:1:1: hint: `activation_checkpointing.head_logits`: the model's own loss reads whole rows of logits, so they are kept, 32.75 KiB with what it saves of each row for each micro-batch in flight on the last stage, and the table of lm_head is not cut; "keep", "recompute" and slices are for the loss of the run file

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

/// Each of these says one thing wrong, and is told so in one mistake.
#[test]
fn every_mistake_in_a_distillation_has_its_error() {
    let home = home();
    let good = |change: &dyn Fn(&mut Value)| {
        let mut distill = json!({ "student": "small", "teacher": "large", "temperature": 2, "alpha": 0.5 });
        change(&mut distill);
        json!({ "distill": distill, "init": { "large": "taught" } })
    };
    let with = |key: &str, value: Value| good(&|distill| distill[key] = value.clone());
    let without = |key: &str| good(&|distill| drop(distill.as_object_mut().unwrap().remove(key)));
    let tasks = [
        without("student"),
        without("teacher"),
        without("temperature"),
        without("alpha"),
        with("student", json!("smal")),
        with("student", json!(3)),
        with("student", json!(["small"])),
        with("student", json!("")),
        with("teacher", json!("huge")),
        with("teacher", json!("small")),
        with("teacher", json!(null)),
        with("teacher", json!({ "large": "taught" })),
        with("temperature", json!(0)),
        with("temperature", json!(-1)),
        with("temperature", json!("2")),
        with("temperature", json!("auto")),
        with("temperature", json!(1e9)),
        with("temperature", json!([2])),
        with("alpha", json!(-0.1)),
        with("alpha", json!(1.1)),
        with("alpha", json!(true)),
        with("alpha", json!(null)),
        with("temprature", json!(2)),
        with("loss", json!("kl")),
        with("init", json!("taught")),
        json!({ "distill": ["small", "large"] }),
        json!({ "distill": "small" }),
        json!({ "distill": 2 }),
        json!({ "distill": null }),
        json!({ "distil": {} }),
        json!({ "teach": {} }),
        json!({}),
        json!([]),
        json!({ "init": { "large": "taught" } }),
        json!({ "train": ["small"], "init": { "large": "taught" } }),
        json!({ "train": ["small"], "init": { "small": 3 } }),
        json!({ "train": ["small"], "init": ["taught"] }),
        json!({ "train": ["small"], "init": "taught" }),
        json!({ "train": ["small"], "init": null }),
        json!({ "train": ["small"], "inits": {} }),
        json!({ "train": ["small"], "distill": good(&|_| {})["distill"] }),
        json!({ "train": ["small", "small"] }),
        json!({ "train": ["small", "lagre"] }),
        json!({ "train": "small" }),
        json!({ "train": [] }),
        json!({ "distill": good(&|_| {})["distill"], "init": { "larg": "taught" } }),
        json!({ "distill": good(&|_| {})["distill"], "init": { "large": ["taught"] } }),
        // What only the engines show.
        json!({ "distill": good(&|_| {})["distill"] }),
        json!({ "distill": good(&|_| {})["distill"], "init": { "large": "nowhere" } }),
        json!({ "distill": good(&|_| {})["distill"], "init": { "large": "student.json" } }),
    ];
    let mut found = String::new();
    for task in &tasks {
        write_master(&home, "bad.json", teacher(2, 1, 3), &task.to_string());
        let printed = home.run("train bad.json --out never");
        assert_eq!(printed.status, Some(2), "{task}: {}", printed.stderr);
        found += &format!("{task}\n{}", said(&printed.stderr));
    }
    assert!(tasks.len() >= 50 && !home.names().contains(&"never".to_owned()));
    expect![[r#"
        {"distill":{"alpha":0.5,"teacher":"large","temperature":2},"init":{"large":"taught"}}
          x `tasks.learn.distill.student` is missing: it says which engine is trained
          help: add the name of an engine
        {"distill":{"student":"small","alpha":0.5,"temperature":2},"init":{"large":"taught"}}
          x `tasks.learn.distill.teacher` is missing: it says which engine's logits the student learns from
          help: add the name of an engine
        {"distill":{"student":"small","teacher":"large","alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` is missing: it divides logits, and is from 0.001 to 1000000
          help: add a number, such as 2
        {"distill":{"student":"small","teacher":"large","temperature":2},"init":{"large":"taught"}}
          x `tasks.learn.distill.alpha` is missing: it is what the divergence from the teacher weighs, from 0 to 1
          help: add a number, such as 0.5
        {"distill":{"student":"smal","teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.student` is `smal`, and there is no such engine
          help: did you mean `small`? the engines are: `small`, `large`
        {"distill":{"student":3,"teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.student` must be the name of an engine, but is 3
          help: write it in quotes
        {"distill":{"student":["small"],"teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.student` must be the name of an engine, but is a list
          help: write it in quotes
        {"distill":{"student":"","teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.student` is ``, and there is no such engine
          help: the engines are: `small`, `large`
        {"distill":{"student":"small","teacher":"huge","temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.teacher` is `huge`, and there is no such engine
          help: the engines are: `small`, `large`
        {"distill":{"student":"small","teacher":"small","temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.teacher` is `small` again, which stands at 6:45
          help: keep one of the two
        {"distill":{"student":"small","teacher":null,"temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.teacher` must be the name of an engine, but is null
          help: write it in quotes
        {"distill":{"student":"small","teacher":{"large":"taught"},"temperature":2,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.teacher` must be the name of an engine, but is an object
          help: write it in quotes
        {"distill":{"student":"small","teacher":"large","temperature":0,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` is 0, but it divides logits, and is from 0.001 to 1000000
          help: use a value such as 2
        {"distill":{"student":"small","teacher":"large","temperature":-1,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` is -1, but it divides logits, and is from 0.001 to 1000000
          help: use a value such as 2
        {"distill":{"student":"small","teacher":"large","temperature":"2","alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` must be a number, but is the string "2"
          help: write one, such as 2
        {"distill":{"student":"small","teacher":"large","temperature":"auto","alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` must be a number, but is the string "auto"
          help: write one, such as 2
        {"distill":{"student":"small","teacher":"large","temperature":1000000000.0,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` is 1000000000.0, but it divides logits, and is from 0.001 to 1000000
          help: use a value such as 2
        {"distill":{"student":"small","teacher":"large","temperature":[2],"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` must be a number, but is a list
          help: write one, such as 2
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":-0.1},"init":{"large":"taught"}}
          x `tasks.learn.distill.alpha` is -0.1, but it is what the divergence from the teacher weighs, from 0 to 1
          help: use a value such as 0.5
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":1.1},"init":{"large":"taught"}}
          x `tasks.learn.distill.alpha` is 1.1, but it is what the divergence from the teacher weighs, from 0 to 1
          help: use a value such as 0.5
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":true},"init":{"large":"taught"}}
          x `tasks.learn.distill.alpha` must be a number, but is true
          help: write one, such as 0.5
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":null},"init":{"large":"taught"}}
          x `tasks.learn.distill.alpha` must be a number, but is null
          help: write one, such as 0.5
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5,"temprature":2},"init":{"large":"taught"}}
          x unknown key `tasks.learn.distill.temprature` of a distillation
          help: did you mean `temperature`?
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5,"loss":"kl"},"init":{"large":"taught"}}
          x unknown key `tasks.learn.distill.loss` of a distillation
          help: the known ones are: `student`, `teacher`, `temperature`, `alpha`
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5,"init":"taught"},"init":{"large":"taught"}}
          x unknown key `tasks.learn.distill.init` of a distillation
          help: the known ones are: `student`, `teacher`, `temperature`, `alpha`
        {"distill":["small","large"]}
          x `tasks.learn.distill` must be an object, but is a list
          help: write {"student": "ENGINE", "teacher": "ENGINE", "temperature": 2, "alpha": 0.5}
        {"distill":"small"}
          x `tasks.learn.distill` must be an object, but is the string "small"
          help: write {"student": "ENGINE", "teacher": "ENGINE", "temperature": 2, "alpha": 0.5}
        {"distill":2}
          x `tasks.learn.distill` must be an object, but is 2
          help: write {"student": "ENGINE", "teacher": "ENGINE", "temperature": 2, "alpha": 0.5}
        {"distill":null}
          x `tasks.learn.distill` must be an object, but is null
          help: write {"student": "ENGINE", "teacher": "ENGINE", "temperature": 2, "alpha": 0.5}
        {"distil":{}}
          x `tasks.learn.distil`: there is no such kind of task
          help: did you mean `distill`?
        {"teach":{}}
          x `tasks.learn.teach`: there is no such kind of task
          help: the known ones are: `train`, `distill`, `init`
        {}
          x `tasks.learn` does not say what the task does
          help: write {"train": ["ENGINE", ...]}, or {"distill": {"student": "ENGINE", "teacher": "ENGINE", ...}}
        []
          x `tasks.learn` must be an object, but is a list
          help: write {"train": ["ENGINE", ...]}
        {"init":{"large":"taught"}}
          x `tasks.learn` does not say what the task does
          help: write {"train": ["ENGINE", ...]}, or {"distill": {"student": "ENGINE", "teacher": "ENGINE", ...}}
        {"train":["small"],"init":{"large":"taught"}}
          x `tasks.learn.init.large`: the task has no engine `large`
          help: the engines are: `small`
        {"train":["small"],"init":{"small":3}}
          x `tasks.learn.init.small` must be a path, but is 3
          help: write the path of a run directory, of its weights, or of a folder of transformers, in quotes
        {"train":["small"],"init":["taught"]}
          x `tasks.learn.init` must be an object, but is a list
          help: write {"ENGINE": "its-run-directory", ...}
        {"train":["small"],"init":"taught"}
          x `tasks.learn.init` must be an object, but is the string "taught"
          help: write {"ENGINE": "its-run-directory", ...}
        {"train":["small"],"init":null}
          x `tasks.learn.init` must be an object, but is null
          help: write {"ENGINE": "its-run-directory", ...}
        {"train":["small"],"inits":{}}
          x `tasks.learn.inits`: there is no such kind of task
          help: did you mean `init`?
        {"train":["small"],"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5}}
          x `tasks.learn.distill`: a task does one thing, and what stands at 6:24 is another
          help: make two tasks of it
        {"train":["small","small"]}
          x `tasks.learn.train[1]` is `small` again, which stands at 6:33
          help: keep one of the two
        {"train":["small","lagre"]}
          x `tasks.learn.train[1]` is `lagre`, and there is no such engine
          help: did you mean `large`? the engines are: `small`, `large`
        {"train":"small"}
          x `tasks.learn.train` must be a list of engines, but is the string "small"
          help: write ["ENGINE", ...]
        {"train":[]}
          x `tasks.learn.train` names no engine
          help: name at least one engine
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5},"init":{"larg":"taught"}}
          x `tasks.learn.init.larg`: the task has no engine `larg`
          help: did you mean `large`? the engines are: `small`, `large`
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5},"init":{"large":["taught"]}}
          x `tasks.learn.init.large` must be a path, but is a list
          help: write the path of a run directory, of its weights, or of a folder of transformers, in quotes
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5}}
          x `tasks.learn.distill.teacher` is `large`, which computes logits and is not trained, and nothing says with which weights
          help: add "init": {"large": "ITS-RUN-DIRECTORY"} to the task, or --init large=DIR
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"nowhere"}}
          error: engine `large`: --init ~/nowhere: there is no such file or folder; name a run directory, its weights.safetensors, a checkpoint's folder, or one of transformers; nothing is downloaded
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"student.json"}}
          error: engine `large`: ~/student.json: its header claims 2480468976814858875 bytes, the file has 454; it is not a complete safetensors file
    "#]].assert_eq(&found);
}

/// The lines of an error that say what is wrong and what mends it.
fn said(stderr: &str) -> String {
    let error = &stderr[stderr.find("error: ").expect("an error")..];
    let drawn = |line: &&str| line.starts_with("  x ") || line.starts_with("  help: ");
    let lines: Vec<&str> = error.lines().filter(drawn).collect();
    assert!(lines.iter().filter(|line| line.starts_with("  x ")).count() <= 1, "several mistakes:\n{error}");
    if lines.is_empty() { format!("  {}\n", error.lines().next().unwrap()) } else { lines.join("\n") + "\n" }
}

/// What is wrong between student and teacher, and what a student's and a teacher's run file may not say.
#[test]
fn engines_that_do_not_fit_each_other_are_refused_where_they_are_named() {
    let home = home();
    let engines = |small: &[(&str, Value)], large: &[(&str, Value)]| {
        let changed = |mut engine: Value, changes: &[(&str, Value)]| {
            for (pointer, value) in changes {
                let (section, key) = pointer.rsplit_once('/').unwrap();
                match section {
                    "" => engine[key] = value.clone(),
                    _ => engine[section][key] = value.clone(),
                }
            }
            engine
        };
        master(
            &[("small", changed(student(), small)), ("large", changed(teacher(2, 1, 3), large))],
            &task(2.0, 0.5),
        )
    };
    let cases = [
        engines(&[], &[("model/vocab_size", json!(300))]),
        engines(&[], &[("model/seq_length", json!(32))]),
        engines(&[("zero_optimization/vocabulary_slices", json!(1))], &[("parallel/data", json!(3))]),
        engines(&[], &[("/train_micro_batch_size_per_gpu", json!(3))]),
        engines(&[], &[("/train_micro_batch_size_per_gpu", json!(0))]),
        engines(&[("/activation_checkpointing", json!({ "head_logits": "recompute" }))], &[]),
        engines(&[], &[("model/num_attention_heads", json!(4))]),
        engines(&[("/stesp", json!(3))], &[("/paralel", json!({}))]),
        engines(&[], &[("/paralel", json!({}))]),
    ];
    let mut found = String::new();
    for (number, text) in cases.iter().enumerate() {
        home.write("bad.json", text);
        let printed = home.run("train bad.json --out never");
        let error = &printed.stderr[printed.stderr.find("error: ").expect("an error")..];
        let lines: Vec<&str> =
            error.lines().filter(|line| line.starts_with("  x ") || line.starts_with("  help: ")).collect();
        let lines =
            if lines.is_empty() { error.lines().next().unwrap().to_owned() } else { lines.join("\n") };
        found += &format!("{number} [{}]\n{lines}\n", printed.status.unwrap());
    }
    expect![[r#"
        0 [2]
          x `tasks.learn.distill.teacher` is `large`, of `model.vocab_size` 300, and its student `small` has 256: the student learns from logits of its own shape
          help: take a teacher with `model.vocab_size` 256, or change the student's
        1 [2]
          x `tasks.learn.distill.teacher` is `large`, of `model.seq_length` 32, and its student `small` has 16: the student learns from logits of its own shape
          help: take a teacher with `model.seq_length` 16, or change the student's
        2 [2]
          x `engines.large.parallel.data` is 3, but `small` has 8 sequences in a step, which data ranks share out in equal micro-batches, and micro-batches of 2, as `small` has them, times this data degree do not divide them
          help: use a data degree such as 2, or write `train_micro_batch_size_per_gpu`
        3 [2]
          x `engines.large.train_micro_batch_size_per_gpu` is 3, but `small` has 8 sequences in a step, which data ranks share out in equal micro-batches, and with data degree 1 such micro-batches do not divide them
          help: use a number such as 2
        4 [2]
          x `engines.large.train_micro_batch_size_per_gpu` is 0, but it must be at least 1
          help: use 1 or more
        5 [2]
          x `engines.small.activation_checkpointing.head_logits` is "recompute", but a student's loss reads all logits of a token at once, beside those of its teacher
          help: use "keep", or leave it out
        6 [2]
        error: engine `large`: ~/taught: its run has `model.num_attention_heads` 2, this one 4; the weights belong to another model than the run file describes
        7 [2]
          x unknown key `engines.small.stesp`
          help: did you mean `steps`? that stands at 3:457 already
        8 [2]
          x unknown key `engines.large.paralel`
          help: did you mean `parallel`? that stands at 4:124 already
    "#]].assert_eq(&found);
    assert!(fs::metadata(home.path("never")).is_err());
    assert!(RUN.contains("\"hidden_size\": 16"), "the teacher has the model of the run file");
}
