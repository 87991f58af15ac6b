//! Weights that a run file names to begin with.

use candle_core::Device;
use candle_core::safetensors::load;
use serde_json::{Value, json};

use crate::command::Home;
use crate::distill::{student, teacher, write_master};
use crate::several::{metrics, weights};

const BEGINS: &str = "--set init.from=taught --set steps=2";

#[test]
fn a_run_begins_with_the_weights_that_its_file_names_as_with_those_of_the_command() {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    let by_file = home.run(format!("train run.json {BEGINS} --out by-file"));
    assert!(by_file.stderr.contains("weights are read"), "{}", by_file.stderr);
    by_file.success();
    home.run("train run.json --init taught --set steps=2 --out by-command").success();
    assert_eq!(metrics(&home, "by-file"), metrics(&home, "by-command"));
    assert_eq!(weights(&home, "by-file"), weights(&home, "by-command"));
    // A run that goes on has the weights of its checkpoint, and what was trained is read as it is, wherever the folder is read from.
    home.run(format!("train run.json {BEGINS} --set init.new=[\"^lm_head\"] --out part")).success();
    let again = home.run("train run.json --out part --resume --set init.from=taught --set init.new=[\"^lm_head\"] --set steps=2");
    again.success();
    home.run("eval part").success();
    let renamed = home.run(format!("train run.json {BEGINS} --set init.new=[\"^lm_head\"] --out other-part"));
    // The head is tied to the embedding.
    assert!(renamed.stderr.contains("new parameters, which are drawn: wte.weight"), "{}", renamed.stderr);
    renamed.success();
    assert_eq!(weights(&home, "part"), weights(&home, "other-part"));
    // Engines of a master file name theirs too.
    let mut run: serde_json::Value = serde_json::from_str(&home.read("run.json")).unwrap();
    run["init"] = json!({ "from": "taught" });
    run["steps"] = json!(2);
    home.write(
        "task.json",
        json!({ "engines": { "one": run }, "tasks": { "go": { "train": ["one"] } } }).to_string(),
    );
    home.run("train task.json --out task").success();
    assert_eq!(weights(&home, "task/one"), weights(&home, "by-file"));
}

/// A run that is killed before its first checkpoint leaves its run file, and no state.
#[test]
fn a_run_that_is_killed_before_its_first_checkpoint_begins_with_its_weights_again() {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    home.run("train run.json --init taught --set steps=2 --out whole").success();
    home.run("train run.json --init taught --set steps=2 --out killed").success();
    for file in ["weights.safetensors", "summary.json", "starts.json"] {
        std::fs::remove_file(home.path(&format!("killed/{file}"))).unwrap();
    }
    home.write("killed/metrics.jsonl", "");
    let resumed = home.run("resume killed");
    assert!(resumed.stderr.contains("weights are read"), "{}", resumed.stderr);
    resumed.success();
    assert_eq!(weights(&home, "killed"), weights(&home, "whole"));
}

#[test]
fn weights_that_are_not_there_or_of_another_model_are_refused_at_their_place() {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    for command in ["check", "train"] {
        let said = |changes: &str| {
            let said = home.run(format!("{command} run.json {changes}")).failure(2);
            said.split_whitespace().collect::<Vec<_>>().join(" ").replace(" | ", " ")
        };
        let none = said("--set init.from=nowhere");
        assert!(none.contains("`init.from` is \"nowhere\", but there is no file or folder"), "{none}");
        let other = said("--set init.from=taught --set model.hidden_size=32");
        assert!(other.contains("`init.from` is \"taught\"") && other.contains(",-[--set:1:11]"), "{other}");
        let unmatched = said("--set init.from=taught --set init.new=[\"^front\"]");
        assert!(unmatched.contains("`init.new[0]` is \"^front\", but no layer"), "{unmatched}");
        let front = said("--set model.vision_config={\"size\":3}");
        assert!(front.contains("docs/inputs.md"), "{front}");
    }
    home.run("check run.json --set init.from=taught").success();
}

/// Bytes of all elements of a file's tensors, each of so many bytes.
fn tensor_bytes(home: &Home, file: &str, element_bytes: usize) -> u64 {
    let tensors = load(home.path(file), &Device::Cpu).unwrap();
    tensors.values().map(|tensor| (tensor.elem_count() * element_bytes) as u64).sum()
}

/// Held against the tensors in the files, and the type that each run keeps.
#[test]
fn what_was_read_of_weights_is_told_and_stands_in_the_summary() {
    let home = Home::with(&[("\"gpt2\"", "\"llama\""), ("\"pipeline\": 2", "\"pipeline\": 1")]);
    home.run("train run.json --out taught --set checkpoint.every=2").success();
    home.run("checkpoint export taught --format hf --dtype bf16 --out base").success();
    let narrow = tensor_bytes(&home, "base/model.safetensors", 2);
    let wide = tensor_bytes(&home, "taught/weights.safetensors", 4);
    assert_eq!(wide, 2 * narrow);
    let bf16 = "--set bf16.enabled=true";
    let rounded = "an f32 master copy, rounded to bf16 for each use";
    let both = "bf16 and an f32 master copy";
    for (changes, from, stored, read_bytes, kept, [parameters, masters]) in [
        // Each of two data ranks reads its shard, or everything.
        ("", "base", "bf16", narrow, "f32", [wide, 0]),
        ("--set zero_optimization.stage=1", "base", "bf16", 2 * narrow, "f32", [2 * wide, 0]),
        (bf16, "taught/weights.safetensors", "f32", wide, rounded, [0, wide]),
        (
            "--set zero_optimization.stage=1 --set bf16.enabled=true",
            "base",
            "bf16",
            2 * narrow,
            both,
            [wide, wide],
        ),
    ] {
        let printed =
            home.run(format!("train run.json {changes} --init {from} --set steps=1 --out out --overwrite"));
        let line = printed.stderr.lines().find(|line| line.starts_with("read ")).unwrap().to_owned();
        printed.success();
        assert!(line.contains(&format!(" of {stored} from {from} in ")), "{line}");
        assert!(line.contains(&format!(" s, kept as {kept}; one process held at most ")), "{line}");
        let summary: Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
        let loaded = &summary["loaded_weights"];
        assert_eq!((&loaded["from"], &loaded["stored"]), (&json!(from), &json!([stored])));
        let bytes = |key: &str| loaded[key].as_u64().unwrap();
        assert_eq!(bytes("read_bytes"), read_bytes, "{changes}");
        // Shards are padded.
        for (key, unpadded) in [("parameter_bytes", parameters), ("master_bytes", masters)] {
            assert!((unpadded..=unpadded + unpadded / 20).contains(&bytes(key)), "{changes}: {key} {loaded}");
        }
        // Ranks are threads of one process. A piece is here as the file has it and in f32, and a narrow one on its way too.
        let piece = bytes("piece_bytes");
        assert_eq!(bytes("process_bytes"), bytes("parameter_bytes") + bytes("master_bytes") + piece);
        assert!((1..=24 << 18).contains(&piece), "{piece}");
    }
    // Of a checkpoint whole blocks are read; a run that resumes, and one that draws, has read no weights.
    let step = "taught/checkpoints/step-00000002";
    home.run(format!("train run.json --init {step} --out of-checkpoint")).success();
    home.run("train run.json --out taught --resume --set steps=4").success();
    home.run("train run.json --out drawn").success();
    let loaded = |run: &str| {
        let summary: Value = serde_json::from_str(&home.read(&format!("{run}/summary.json"))).unwrap();
        summary["loaded_weights"].clone()
    };
    assert!(loaded("of-checkpoint")["read_bytes"].as_u64().unwrap() >= wide, "{}", loaded("of-checkpoint"));
    assert_eq!([loaded("taught"), loaded("drawn")], [Value::Null, Value::Null]);
}

/// A task's weights are looked at as those of a run, and so are those that the file of a teacher names. What another task may write first is a hint.
#[test]
fn check_looks_at_the_weights_of_tasks_and_teachers() {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    home.write("student.json", student().to_string());
    let of_teacher = |from: &str| {
        let mut engine = teacher(1, 1, 0);
        engine["init"] = json!({ "from": from });
        engine
    };
    let other = |mut engine: Value| {
        engine["model"]["hidden_size"] = json!(32);
        engine
    };
    let distill = json!({ "student": "small", "teacher": "large", "temperature": 2.0, "alpha": 0.5 });
    let plain = json!({ "distill": distill }).to_string();
    let with_init =
        |name: &str, path: &str| json!({ "distill": distill, "init": { name: path } }).to_string();
    let missing = "there is no file or folder ~/nowhere";
    let others = "the weights belong to another model than the run file describes";
    for (engine, task, status, said) in [
        (of_teacher("taught"), plain.clone(), 0, [""; 2]),
        (
            of_teacher("nowhere"),
            plain.clone(),
            2,
            ["`engines.large.init.from` is \"nowhere\", but ", missing],
        ),
        (
            other(of_teacher("taught")),
            plain.clone(),
            2,
            ["`engines.large.init.from` is \"taught\", but ", "hidden_size"],
        ),
        // The task's counts before the file's.
        (of_teacher("nowhere"), with_init("large", "taught"), 0, [""; 2]),
        (
            of_teacher("taught"),
            with_init("large", "nowhere"),
            2,
            ["`tasks.learn.init.large` is \"nowhere\", but ", missing],
        ),
        (
            of_teacher("taught"),
            with_init("large", "student.json"),
            2,
            ["`tasks.learn.init.large` is \"student.json\", but ", "student.json: "],
        ),
        // The student's model is another.
        (
            of_teacher("taught"),
            with_init("small", "taught/weights.safetensors"),
            2,
            ["`tasks.learn.init.small` is \"taught/weights.safetensors\"", others],
        ),
    ] {
        write_master(&home, "master.json", engine, &task);
        let printed = home.run("check master.json");
        let words: Vec<&str> = printed.stderr.split_whitespace().collect();
        let stderr = words.join(" ").replace(" | ", " ");
        assert_eq!(printed.status, Some(status), "{task}: {stderr}");
        for said in said {
            assert!(stderr.contains(said), "{task}: {said}: {stderr}");
        }
        assert_eq!(said[0].is_empty(), !stderr.contains("init."), "{task}: {stderr}");
    }
}

#[test]
fn new_parameters_of_a_run_without_weights_get_a_line() {
    let home = Home::new();
    let new = "--set init.new=[\"^lm_head\"]";
    for (line, expected) in [
        (format!("check run.json {new}"), "hint: `init.new`: no effect unless the run begins with weights: "),
        (
            format!("train run.json {new} --out drawn"),
            "warning: `init.new`: no effect: this run begins without weights, ",
        ),
    ] {
        let printed = home.run(&line);
        let stderr = printed.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains(expected), "{line}: {stderr}");
        printed.success();
    }
    // With weights it has its effect, and a run that resumes keeps what it began with.
    for line in [
        "check run.json --set init.from=drawn",
        "train run.json --init drawn --out again",
        "train run.json --out again --resume",
    ] {
        let printed = home.run(format!("{line} {new}"));
        assert!(!printed.stderr.contains("no effect"), "{line}: {}", printed.stderr);
        printed.success();
    }
}

/// What `train` runs, `check` takes: the weights of a task count before those of an engine's file wherever each task that uses it names some, and another task
/// may write what is not there, of whichever engine.
#[test]
fn check_takes_the_weights_of_tasks_as_train_does() {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    let run: Value = serde_json::from_str(&home.read("run.json")).unwrap();
    let from = |path: &str| {
        let mut run = run.clone();
        run["init"] = json!({ "from": path });
        run
    };
    let engines = json!({ "other": from("nowhere"), "large": run });
    let begins = |engine: &str, path: &str| json!({ "train": [engine], "init": { engine: path } });
    let plain = json!({ "train": ["other"] });
    let own = Some("`engines.other.init.from` is \"nowhere\", but there is no file or folder");
    let of_task = Some("`tasks.t.init.other` is \"out/large\", but there is no file or folder");
    for (tasks, refused, hints) in [
        (json!({ "t": begins("other", "taught") }), None, 0),
        (json!({ "t": begins("other", "taught"), "more": plain }), own, 0),
        (json!({ "t": plain, "more": begins("other", "taught") }), own, 0),
        (json!({ "t": { "train": ["large"] } }), own, 0),
        (json!({ "t": begins("other", "out/large") }), of_task, 0),
        (json!({ "teach": { "train": ["large"] }, "t": begins("other", "out/large") }), None, 1),
    ] {
        home.write("master.json", json!({ "engines": engines, "tasks": tasks }).to_string());
        let printed = home.run("check master.json");
        let words: Vec<&str> = printed.stderr.split_whitespace().collect();
        let stderr = words.join(" ").replace(" | ", " ");
        assert_eq!(printed.status, Some(if refused.is_some() { 2 } else { 0 }), "{tasks}: {stderr}");
        assert!(stderr.contains(refused.unwrap_or_default()), "{tasks}: {stderr}");
        assert_eq!(stderr.matches("hint: `tasks.t.init.other`: ").count(), hints, "{tasks}: {stderr}");
    }
    // The last file, as it is meant.
    home.run("train master.json --task teach --out out").success();
    home.run("train master.json --task t --out out").success();
    home.run("check master.json").success();
}

#[test]
fn weights_of_which_nothing_is_used_get_a_line_that_says_so() {
    let home = Home::new();
    home.run("train run.json --out taught").success();
    let none = home.run("train run.json --set init.from=taught --set init.new=[\".*\"] --out none");
    assert!(
        none.stderr
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("nothing of ~/taught/weights.safetensors is used: all parameters are new"),
        "{}",
        none.stderr
    );
    assert!(!none.stderr.contains("read 0 B"), "{}", none.stderr);
    none.success();
}
