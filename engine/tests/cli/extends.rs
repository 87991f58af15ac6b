//! Run files that extend others, and engines of a master file that do.

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::{Home, Printed};
use crate::distill;
use crate::several::{metrics, weights};

/// A folder with `run.json` as a base, and two short files that extend it, one of them in another folder.
fn home() -> Home {
    let home = Home::new();
    home.write("two.json", "{\n  \"extends\": \"run.json\",\n  \"parallel\": { \"pipeline\": null },\n  \"zero_optimization\": { \"stage\": 2 }\n}\n");
    std::fs::create_dir(home.path("sub")).unwrap();
    home.write(
        "sub/three.json",
        "{ \"extends\": \"../two.json\",\n  \"zero_optimization\": { \"stage\": 3, \"unit_layers\": 2 } }\n",
    );
    home
}

#[test]
fn check_says_which_file_says_what() {
    let home = home();
    let printed = home.run("check sub/three.json --set steps=4").success();
    let table = printed.find("\nvalue ").map(|at| printed[at + 1..].to_owned()).unwrap_or_default();
    let expected = expect![[r#"
        value                                        from
        model.family                    sub/../run.json:3
        model.num_layers                sub/../run.json:4
        model.hidden_size               sub/../run.json:5
        model.num_attention_heads       sub/../run.json:6
        model.seq_length                sub/../run.json:7
        data.text                       sub/../run.json:9
        data.validation                 sub/../run.json:9
        evaluation.every               sub/../run.json:10
        evaluation.batches             sub/../run.json:10
        parallel.data                  sub/../run.json:11
        zero_optimization.stage          sub/three.json:2
        zero_optimization.unit_layers    sub/three.json:2
        train_batch_size               sub/../run.json:13
        gradient_accumulation_steps    sub/../run.json:14
        optimizer.type                 sub/../run.json:15
        optimizer.params.lr            sub/../run.json:15
        threads                        sub/../run.json:16
        steps                                       --set
        seed                           sub/../run.json:18

        sub/three.json is a valid run, with 1 warning
    "#]];
    expected.assert_eq(&table);
    let json = home.json("check sub/three.json --json --set steps=4");
    assert_eq!(json["steps"], 4);
    let origins = &json["origins"];
    assert_eq!(origins["steps"], "--set");
    assert_eq!(origins["zero_optimization.stage"], "sub/three.json:2");
    assert_eq!(origins["parallel.data"], "sub/../run.json:11");
    assert_eq!(home.json("check run.json --json").get("origins"), None);
    assert!(!home.run("check run.json").success().contains("\nvalue "));
}

/// Its run directory is that of the file that says all of it.
#[test]
fn a_run_is_recorded_as_a_file_that_extends_none() {
    let home = home();
    let mut whole: Value = serde_json::from_str(&home.read("run.json")).unwrap();
    whole["parallel"] = json!({ "data": 2 });
    whole["zero_optimization"] = json!({ "stage": 3, "unit_layers": 2 });
    home.write("whole.json", whole.to_string());
    home.run("train whole.json --out whole").success();
    home.run("train sub/three.json --out merged").success();
    let recorded =
        |run: &str| -> Value { serde_json::from_str(&home.read(&format!("{run}/run.json"))).unwrap() };
    let (mut merged, whole) = (recorded("merged"), recorded("whole"));
    // The way to the text leads over the folder of the file that extends.
    assert_eq!(merged["data"]["text"], home.path("sub/../text.txt").display().to_string());
    merged["data"]["text"] = whole["data"]["text"].clone();
    assert_eq!(merged, whole);
    assert_eq!(metrics(&home, "merged"), metrics(&home, "whole"));
    assert_eq!(weights(&home, "merged"), weights(&home, "whole"));
    home.run("resume merged").success();
}

#[test]
fn engines_extend_a_base_that_they_share() {
    let home = home();
    let text = json!({
        "engines": { "two": "two.json", "three": { "extends": "sub/three.json", "steps": 2 } },
        "tasks": { "both": { "train": ["two", "three"] } }
    });
    home.write("master.json", text.to_string());
    let json = home.json("check master.json --json");
    let engine = |name: &str, key: &str| json["engines"][name]["origins"][key].clone();
    assert_eq!(engine("two", "zero_optimization.stage"), "two.json:4");
    assert_eq!(engine("three", "zero_optimization.unit_layers"), "sub/three.json:2");
    assert_eq!(engine("three", "steps"), "master.json:1");
    assert_eq!(home.run("check master.json").success().matches("\nvalue ").count(), 2);
    home.run("train master.json --out runs").success();
    home.run("train two.json --out alone").success();
    assert_eq!(metrics(&home, "runs/two"), metrics(&home, "alone"));
}

/// A teacher may have its weights from the command line, so its file is not wrong.
#[test]
fn check_warns_of_a_teacher_without_weights() {
    let home = distill::home();
    let task = distill::task(2.0, 0.5);
    distill::write_master(&home, "with.json", distill::teacher(2, 2, 1), &task);
    distill::write_master(
        &home,
        "without.json",
        distill::teacher(2, 2, 1),
        &task.replace(r#","init":{"large":"taught"}"#, ""),
    );
    let said = |line: &str| {
        let printed = home.run(line);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        let warnings = printed.stderr.lines().filter(|line| line.contains("warning: "));
        warnings.map(|line| format!("{line}\n")).collect::<String>()
    };
    let expected = expect![[r#"
        without.json:6:63: warning: `tasks.learn.distill.teacher`: it is `large`, which computes logits and is not trained, and nothing says with which weights; add "init": {"large": "ITS-RUN-DIRECTORY"} to the task, or give `train` --init large=DIR
    "#]];
    expected.assert_eq(&said("check without.json"));
    assert_eq!(said("check without.json --json"), said("check without.json"));
    assert_eq!(said("check with.json"), "");
}

/// Each refusal named the number of another engine.
#[test]
fn a_job_that_suits_one_engine_alone_is_told_what_suits_all() {
    let home = Home::new();
    let engine = |pipeline: usize, data: usize| {
        json!({
            "extends": "run.json", "parallel": { "pipeline": pipeline, "data": data },
            "train_batch_size": 8, "gradient_accumulation_steps": 4
        })
    };
    let text = json!({
        "engines": { "four": engine(2, 2), "two": engine(2, 1) },
        "tasks": { "both": { "train": ["four", "two"] } }
    });
    home.write("master.json", text.to_string());
    let said = |size: &str| {
        let mut command = home.command("train master.json");
        command.envs([("RANK", "0"), ("WORLD_SIZE", size), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", size)]);
        command.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")]);
        let of_job = Printed::new(command.output().unwrap(), &home.path("")).failure(2);
        let launched = home.run(format!("launch -n {size} -- train master.json")).failure(2);
        assert_eq!(of_job, launched);
        launched
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("x ") || line.starts_with("help: "))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (of_two, of_four) = (said("2"), said("4"));
    assert_eq!(of_two.replace("started 2", "started 4"), of_four);
    let expected = expect![[r#"
        x `tasks.both`: its engines share all ranks of the job; the launcher started 4, but `four` needs 4 and `two` needs 2
        help: give them ranks of their own with "ranks": {"four": "0-3", "two": "4-5"}, and start 6; or let them share ranks with "ranks": {"four": "0-3", "two": "0-1"}, and start 4
    "#]];
    expected.assert_eq(&format!("{of_four}\n"));
}

#[test]
fn two_files_are_answered_with_a_master_file() {
    let home = Home::new();
    home.refuses(
        "check",
        expect![[r#"
            $ a.json b.json
            [2] error: a command takes one file; of several models that is a master file, which `train`, `check` and `plan` take: {"engines": {"a": "a.json", "b": "b.json"}, "tasks": {"all": {"train": ["a", "b"]}}}
            $ a.json,b.json
            [2] error: not a valid run, 1 mistake:
              x a.json,b.json: cannot read the run file: a command takes one file; of several models that is a master file, which `train`, `check` and `plan` take: {"engines": {"a": "a.json", "b": "b.json"}, "tasks": {"all": {"train": ["a", "b"]}}}
        "#]],
    );
    let error = home.run("launch -n 2 -- train a.json b.json").failure(2);
    assert!(error.contains(r#"{"engines": {"a": "a.json", "b": "b.json"}"#), "{error}");
}
