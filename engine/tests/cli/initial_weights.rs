//! Weights that a run file names to begin with.

use serde_json::json;

use crate::command::Home;
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
