//! Mistakes in a distillation.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::RUN;
use crate::distill::{home, master, student, task, teacher, write_master};

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
        json!({ "train": ["small"], "init": { "small": "" } }),
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
          x `tasks.learn.distill.temperature` is missing: it divides logits, and is from 0.001 to 20
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
          x `tasks.learn.distill.temperature` is 0, but it divides logits, and is from 0.001 to 20
          help: use a value such as 2
        {"distill":{"student":"small","teacher":"large","temperature":-1,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` is -1, but it divides logits, and is from 0.001 to 20
          help: use a value such as 2
        {"distill":{"student":"small","teacher":"large","temperature":"2","alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` must be a number, but is the string "2"
          help: write one, such as 2
        {"distill":{"student":"small","teacher":"large","temperature":"auto","alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` must be a number, but is the string "auto"
          help: write one, such as 2
        {"distill":{"student":"small","teacher":"large","temperature":1000000000.0,"alpha":0.5},"init":{"large":"taught"}}
          x `tasks.learn.distill.temperature` is 1000000000.0, but it divides logits, and is from 0.001 to 20
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
          x `tasks.learn.distil`: a task has no such key
          help: did you mean `distill`?
        {"teach":{}}
          x `tasks.learn.teach`: a task has no such key
          help: what it does is `train` or `distill`, beside which it may have `init` and `ranks`
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
        {"train":["small"],"init":{"small":""}}
          x `tasks.learn.init.small` must be a path, but is the string ""
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
          x `tasks.learn.inits`: a task has no such key
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
          help: add "init": {"large": "ITS-RUN-DIRECTORY"} to the task, or give `train` --init large=DIR
        {"distill":{"student":"small","teacher":"large","temperature":2,"alpha":0.5},"init":{"large":"nowhere"}}
          error: engine `large`: `tasks.learn.init.large`: ~/nowhere: there is no such file or folder; name a run directory, its weights.safetensors, a checkpoint's folder, or one of transformers; nothing is downloaded
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
    let timed = json!({
        "family": "timed", "num_layers": 4, "seq_length": 16, "parameters_per_layer": 64, "activation_elements": 64, "forward_ms": 0
    });
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
        engines(&[], &[("/train_micro_batch_size_per_gpu", json!(1_u64 << 62)), ("parallel/data", json!(2))]),
        engines(&[], &[("/model", timed)]),
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
        9 [2]
          x `engines.large.train_micro_batch_size_per_gpu` is 4611686018427387904, but `small` has 8 sequences in a step, which data ranks share out in equal micro-batches, and with data degree 2 such micro-batches do not divide them
          help: use a number such as 4
        10 [2]
          x `tasks.learn.distill.teacher` is `large`, of the family "timed", which computes no logits
          help: take an engine of another family
    "#]].assert_eq(&found);
    assert!(fs::metadata(home.path("never")).is_err());
    assert!(RUN.contains("\"hidden_size\": 16"), "the teacher has the model of the run file");
}

/// They would be replaced, or be the student's own.
#[test]
fn a_teacher_is_not_read_from_a_directory_that_the_task_writes() {
    let home = home();
    home.run("train run.json --out out/small").success();
    let before = home.names_in("out/small");
    let distill = json!({ "student": "small", "teacher": "large", "temperature": 2, "alpha": 0.5 });
    let task = json!({ "distill": distill, "init": { "large": "out/small" } });
    write_master(&home, "inside.json", teacher(2, 1, 3), &task.to_string());
    for way in ["--overwrite", "--resume"] {
        let error = home.run(format!("train inside.json --out out {way}")).failure(2);
        assert!(error.contains("lie in the run directory of `small`, which this task writes"), "{error}");
    }
    assert_eq!(home.names_in("out/small"), before);
}
