//! Files that extend others, from their texts to the run and the words for what cannot be.

mod refused;

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::testing::RESOURCES;
use crate::{ConfigErrors, Copies, GivenFile, RunFile};

/// A run that lacks nothing.
const BASE: &str = r#"{
  "model": {"family": "gpt2", "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 16},
  "data": {"text": ["a.txt", "/b.txt"]},
  "train_batch_size": 8,
  "steps": 3
}"#;

const COPIES: Copies = Copies { schedule: "copy.csv", tokenizer: "copy.json" };

/// A folder with these files.
fn home(files: &[(&str, &str)]) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

fn load(home: &TempDir, name: &str) -> Result<RunFile, ConfigErrors> {
    RunFile::load(&home.path().join(name))
}

/// The merged file as a run directory has it.
fn recorded(home: &TempDir, name: &str) -> Value {
    let file = load(home, name).unwrap_or_else(|errors| panic!("{errors}"));
    serde_json::from_str(&file.effective_json(&COPIES)).unwrap()
}

/// What is wrong, with paths as seen from the folder.
fn errors(home: &TempDir, error: &ConfigErrors) -> String {
    error.to_string().replace(&format!("{}/", home.path().display()), "") + "\n"
}

/// What is wrong with the file of this name, once it is resolved.
fn wrong(home: &TempDir, name: &str, set: &[&str]) -> String {
    let set: Vec<String> = set.iter().map(|&argument| argument.to_owned()).collect();
    let resolved = load(home, name).and_then(|file| file.set(&set)).and_then(|file| file.resolve(RESOURCES));
    errors(home, &resolved.map(drop).expect_err("a mistake"))
}

#[test]
fn keys_are_merged_one_by_one_and_all_else_counts_as_a_whole() {
    for (base, later, merged) in [
        (r#"{"a": 1, "b": 2}"#, r#""b": 3, "c": 4"#, json!({"a": 1, "b": 3, "c": 4})),
        (
            r#"{"o": {"x": 1, "y": {"z": 2}}}"#,
            r#""o": {"y": {"w": 3}}"#,
            json!({"o": {"x": 1, "y": {"z": 2, "w": 3}}}),
        ),
        (r#"{"l": [1, 2, 3]}"#, r#""l": [4]"#, json!({"l": [4]})),
        (r#"{"l": [{"x": 1}]}"#, r#""l": [{"y": null}]"#, json!({"l": [{"y": null}]})),
        (r#"{"a": 1, "o": {"x": 1, "y": 2}}"#, r#""a": null, "o": {"x": null}"#, json!({"o": {"y": 2}})),
        (r#"{"o": {"x": 1}}"#, r#""o": null"#, json!({})),
        (r#"{"o": {"x": 1}}"#, r#""o": {}"#, json!({"o": {"x": 1}})),
        (r#"{"o": {"x": 1}}"#, r#""o": 5"#, json!({"o": 5})),
        (r#"{"o": 5}"#, r#""o": {"x": 1}"#, json!({"o": {"x": 1}})),
        (r#"{}"#, r#""a": null, "o": {"x": null}"#, json!({"a": null, "o": {"x": null}})),
        // Without a base of its own a base keeps what it says.
        (r#"{"a": null, "b": true}"#, r#""c": "d""#, json!({"a": null, "b": true, "c": "d"})),
        // The word for a section is the value of one of its keys.
        (
            r#"{"activation_checkpointing": "auto"}"#,
            r#""activation_checkpointing": {"every_layers": 2}"#,
            json!({"activation_checkpointing": {"enabled": "auto", "every_layers": 2}}),
        ),
    ] {
        let own = format!(r#"{{"extends": "base.json", {later}}}"#);
        let home = home(&[("base.json", base), ("run.json", &own)]);
        assert_eq!(recorded(&home, "run.json"), merged, "{base} {later}");
    }
}

#[test]
fn a_base_may_extend_another_and_null_names_none() {
    let home = home(&[
        ("first.json", r#"{"a": 1, "b": 1, "c": 1, "d": 1}"#),
        ("second.json", r#"{"extends": "first.json", "b": 2, "c": 2, "d": null}"#),
        ("third.json", r#"{"c": 3, "extends": "second.json"}"#),
        ("alone.json", r#"{"extends": null, "a": 5}"#),
    ]);
    assert_eq!(recorded(&home, "third.json"), json!({"a": 1, "b": 2, "c": 3}));
    assert_eq!(recorded(&home, "alone.json"), json!({"a": 5}));
}

#[test]
fn set_counts_last_and_names_no_base() {
    let home =
        home(&[("base.json", BASE), ("run.json", r#"{"extends": "base.json", "steps": 4, "seed": 1}"#)]);
    let set = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        load(&home, "run.json").unwrap().set(&arguments).unwrap().resolve(RESOURCES).unwrap().0
    };
    let run = set(&["steps=5", "model.num_layers=8", "seed=null"]);
    assert_eq!((run.steps, run.model.num_layers(), run.seed), (5, 8, 0));
    let run = set(&[]);
    assert_eq!((run.steps, run.model.num_layers(), run.seed), (4, 4, 1));
    let expected = expect![[r#"
        --set extends=other.json: `extends` is "other.json", but a file and its bases are merged before `--set` changes them; write it in the file
    "#]];
    expected.assert_eq(&wrong(&home, "run.json", &["extends=other.json"]));
}

/// Every key that holds a path.
#[test]
fn relative_paths_start_at_the_folder_of_the_file_in_which_they_are_written() {
    let paths = r#"{
        "data": {"text": ["a/*.txt", "/b.txt", ""], "tokens": "t", "validation_tokens": ["../v"], "tokenizer": "tok"},
        "model": {"from": "gpt"}, "init": {"from": "weights"}, "parallel": {"schedule": {"file": "order.csv"}}
    }"#;
    let home = home(&[
        ("x/y/first.json", paths),
        ("x/second.json", r#"{"extends": "y/first.json", "data": {"tokens": "own"}}"#),
        ("z/run.json", r#"{"extends": "../x/second.json", "data": {"tokenizer": "mine"}}"#),
        ("x/y/beside.json", r#"{"extends": "first.json"}"#),
    ]);
    let absolute = |path: &str| home.path().join(path).display().to_string();
    let file = load(&home, "z/run.json").unwrap();
    let text = |key: &str| match &file.root.find(key).unwrap().value {
        pipezero_files::json::Value::String(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text("data.tokenizer"), "mine");
    assert_eq!(text("model.from"), "../x/y/gpt");
    assert_eq!(text("parallel.schedule.file"), "../x/y/order.csv");
    assert_eq!(file.model_folder().unwrap(), home.path().join("z/../x/y/gpt"));
    let recorded_paths = recorded(&home, "z/run.json");
    assert_eq!(
        recorded_paths["data"]["text"],
        json!([absolute("z/../x/y/a/*.txt"), "/b.txt", absolute("z/")])
    );
    assert_eq!(recorded_paths["data"]["tokens"], absolute("z/../x/own"));
    assert_eq!(recorded_paths["data"]["validation_tokens"], json!([absolute("z/../x/y/../v")]));
    assert_eq!(recorded_paths["init"]["from"], absolute("z/../x/y/weights"));
    let beside = load(&home, "x/y/beside.json").unwrap();
    assert_eq!(beside.model_folder().unwrap(), home.path().join("x/y/gpt"));
}

#[test]
fn the_run_is_that_of_the_file_that_says_all_of_it() {
    let home = home(&[
        ("base.json", BASE),
        (
            "zero.json",
            r#"{"extends": "base.json", "zero_optimization": {"stage": 2}, "parallel": {"data": 4}, "steps": null}"#,
        ),
        ("run.json", r#"{"extends": "zero.json", "zero_optimization": {"stage": 3}, "steps": 9}"#),
        (
            "whole.json",
            &BASE.replace(
                "\"steps\": 3",
                r#""zero_optimization": {"stage": 3}, "parallel": {"data": 4}, "steps": 9"#,
            ),
        ),
    ]);
    assert_eq!(recorded(&home, "run.json"), recorded(&home, "whole.json"));
    let resolved = |name: &str| format!("{:?}", load(&home, name).unwrap().resolve(RESOURCES).unwrap().0);
    assert_eq!(resolved("run.json"), resolved("whole.json"));
}

#[test]
fn engines_of_a_master_file_extend_files_in_braces_and_in_files_of_their_own() {
    let home = home(&[
        ("parts/base.json", BASE),
        ("parts/own.json", r#"{"extends": "base.json", "steps": 7}"#),
        (
            "master.json",
            r#"{
  "engines": {
    "braces": {"extends": "parts/base.json", "steps": 5, "zero_optimization": {"stage": 9}},
    "file": "parts/own.json",
    "lost": {"extends": "parts/gone.json"}
  },
  "tasks": {"all": {"train": ["braces", "file", "lost"]}}
}"#,
        ),
    ]);
    let GivenFile::Master(master) = GivenFile::load(&home.path().join("master.json")).unwrap() else {
        panic!("a master file")
    };
    let engines = ["braces", "file", "lost"].map(str::to_owned);
    let set = ["engines.braces.zero_optimization.stage=1".to_owned(), "engines.file.steps=8".to_owned()];
    let changed = master.clone().set(&set, &engines).unwrap();
    for (name, steps) in [("braces", 5), ("file", 8)] {
        let (run, _) = changed.engine(name).unwrap().file.resolve(RESOURCES).unwrap();
        assert_eq!(run.steps, steps, "{name}");
        let text = &run.data.text[0];
        assert_eq!(text.canonicalize().ok(), None);
        assert_eq!(text, &home.path().join("parts/a.txt"), "{name}");
    }
    let engine = master.engine("braces").unwrap();
    let of_braces = engine.in_place(engine.file.resolve(RESOURCES).map(drop).unwrap_err());
    let of_lost = master.engine("lost").map(drop).unwrap_err();
    let expected = expect![[r#"
        master.json:3:89: `engines.braces.zero_optimization.stage` is 9, but ZeRO has the levels 0, 1, 2 and 3; use one of them
        master.json:5:25: `engines.lost.extends` is "parts/gone.json", but that file cannot be read: No such file or directory (os error 2) (master.json -> parts/gone.json); relative paths start at the folder of the file in which they are written
    "#]];
    expected.assert_eq(&(errors(&home, &of_braces) + &errors(&home, &of_lost)));
}

#[test]
fn each_value_names_the_file_that_says_it() {
    let home = home(&[
        ("sub/base.json", BASE),
        (
            "run.json",
            "{\n  \"_why\": 1,\n  \"extends\": \"sub/base.json\",\n  \"zero_optimization\": {},\n  \"model\": {\n    \"seq_length\": 8 }\n}",
        ),
    ]);
    let file = load(&home, "run.json").unwrap().set(&["steps=4".to_owned()]).unwrap();
    let of_home = format!("{}/", home.path().display());
    let lines: String =
        file.origins().iter().map(|of| format!("{} {of}\n", of.key).replace(&of_home, "")).collect();
    let expected: Expect = expect![[r#"
        model.family sub/base.json:2
        model.num_layers sub/base.json:2
        model.hidden_size sub/base.json:2
        model.num_attention_heads sub/base.json:2
        model.seq_length run.json:6
        data.text sub/base.json:3
        train_batch_size sub/base.json:4
        steps --set
        zero_optimization run.json:4
    "#]];
    expected.assert_eq(&lines);
    assert_eq!(load(&home, "sub/base.json").unwrap().origins(), []);
}

#[test]
fn a_base_is_not_mended_with_the_file_that_extends_it() {
    let base = BASE.replace("\"steps\": 3", "\"stepps\": 3");
    let own = r#"{"extends": "base.json", "sede": 4}"#;
    let home = home(&[
        ("base.json", &base),
        ("run.json", own),
        ("good.json", BASE),
        ("fine.json", r#"{"extends": "good.json", "sede": 4}"#),
    ]);
    let fixed = |name: &str| {
        let path = home.path().join(name);
        GivenFile::fixed(&path, Path::new(home.path()), RESOURCES, &|_| None)
    };
    assert_eq!(fixed("fine.json").unwrap().text, r#"{"extends": "good.json", "seed": 4}"#);
    let left = fixed("run.json").unwrap_err();
    assert_eq!(left.num_fixable, 1);
    assert!(errors(&home, &left.errors).starts_with("base.json:5:3: unknown key `stepps`"), "{left}");
}
