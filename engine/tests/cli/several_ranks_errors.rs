//! Ranks of engines that cannot be.

use expect_test::expect;
use serde_json::json;

use crate::command::{Home, Printed};
use crate::several;

/// A folder with master files, each with another mistake in the ranks of its only task.
fn home() -> Home {
    let home = several::home();
    for (name, ranks) in [
        ("no-object", r#""0-3""#),
        ("empty", "{}"),
        ("unknown-engine", r#"{ "lift": "0-3", "other": "4" }"#),
        ("bad-types", r#"{ "left": 3, "right": [4, 5] }"#),
        ("bad-forms", r#"{ "left": "0..3", "right": "" }"#),
        ("reversed", r#"{ "left": "3-0", "right": "4-65536" }"#),
        ("other-number", r#"{ "left": "2-4", "right": "5" }"#),
        ("gap", r#"{ "right": "6-7" }"#),
        ("gap-of-one", r#"{ "left": "0-3", "right": "5-6" }"#),
        ("not-from-0", r#"{ "left": "1-4", "right": "1-2" }"#),
    ] {
        let text = format!(
            "{{\n  \"engines\": {{ \"left\": \"first.json\", \"right\": \"second.json\" }},\n  \"tasks\": {{ \"all\": {{ \"train\": [\"left\", \"right\"],\n    \"ranks\": {ranks} }} }}\n}}\n"
        );
        home.write(&format!("{name}.json"), text);
    }
    home
}

#[test]
fn mistakes_in_ranks_are_shown_at_their_places() {
    let home = home();
    let expected = expect![[r#"
        $ no-object.json
        [2] error: not a valid master file, 1 mistake:
          x `tasks.all.ranks` must be an object, but is the string "0-3"
           ,-[no-object.json:4:14]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": "0-3" } }
           :              ^^^^^
         5 | }
           `----
          help: write {"ENGINE": "0-3", ...}
        $ empty.json
        [2] error: not a valid master file, 1 mistake:
          x `tasks.all.ranks` names no engine
           ,-[empty.json:4:14]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": {} } }
           :              ^^
         5 | }
           `----
          help: name at least one engine
        $ unknown-engine.json
        [2] error: not a valid master file, 2 mistakes:
          x `tasks.all.ranks.lift`: the task has no engine `lift`
           ,-[unknown-engine.json:4:16]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "lift": "0-3", "other": "4" } } }
           :                ^^^^^^
         5 | }
           `----
          help: did you mean `left`? the engines are: `left`, `right`

          x `tasks.all.ranks.other`: the task has no engine `other`
           ,-[unknown-engine.json:4:31]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "lift": "0-3", "other": "4" } } }
           :                               ^^^^^^^
         5 | }
           `----
          help: the engines are: `left`, `right`
        $ bad-types.json
        [2] error: not a valid master file, 2 mistakes:
          x `tasks.all.ranks.left` must be ranks, but is 3
           ,-[bad-types.json:4:24]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": 3, "right": [4, 5] } } }
           :                        ^
         5 | }
           `----
          help: write them in quotes, such as "0-3", or "4" of one

          x `tasks.all.ranks.right` must be ranks, but is a list
           ,-[bad-types.json:4:36]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": 3, "right": [4, 5] } } }
           :                                    ^^^^^^
         5 | }
           `----
          help: write them in quotes, such as "0-3", or "4" of one
        $ bad-forms.json
        [2] error: not a valid master file, 2 mistakes:
          x `tasks.all.ranks.left` is the string "0..3", but ranks are written as the first and the last of them, or as the only one
           ,-[bad-forms.json:4:24]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "0..3", "right": "" } } }
           :                        ^^^^^^
         5 | }
           `----
          help: write "0-3", or "4" of one

          x `tasks.all.ranks.right` is the string "", but ranks are written as the first and the last of them, or as the only one
           ,-[bad-forms.json:4:41]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "0..3", "right": "" } } }
           :                                         ^^
         5 | }
           `----
          help: write "0-3", or "4" of one
        $ reversed.json
        [2] error: not a valid master file, 2 mistakes:
          x `tasks.all.ranks.left` is the string "3-0", but the first of them is above the last
           ,-[reversed.json:4:24]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "3-0", "right": "4-65536" } } }
           :                        ^^^^^
         5 | }
           `----
          help: write the lower one first

          x `tasks.all.ranks.right` is the string "4-65536", but a job has at most 65536 ranks
           ,-[reversed.json:4:40]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "3-0", "right": "4-65536" } } }
           :                                        ^^^^^^^^^
         5 | }
           `----
          help: use ranks up to 65535
        $ other-number.json
        [2] error: not a valid master file, 2 mistakes:
          x `tasks.all.ranks.left` is 3 ranks, and the grid of `left` has 4 ranks: pipeline 2 x data 2
           ,-[other-number.json:4:24]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "2-4", "right": "5" } } }
           :                        ^^^^^
         5 | }
           `----
          help: write "2-5", or another grid in its run file

          x `tasks.all.ranks.right` is 1 rank, and the grid of `right` has 2 ranks: pipeline 1 x data 2
           ,-[other-number.json:4:40]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "2-4", "right": "5" } } }
           :                                        ^^^
         5 | }
           `----
          help: write "5-6", or another grid in its run file
        $ gap.json
        [2] error: not a valid master file, 1 mistake:
          x `tasks.all.ranks`: no engine has ranks 4 to 5
           ,-[gap.json:4:5]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "right": "6-7" } } }
           :     ^^^^^^^
         5 | }
           `----
          help: let the ranks of the engines leave no gap, from 0 on; an engine that is not named begins at rank 0
        $ gap-of-one.json
        [2] error: not a valid master file, 1 mistake:
          x `tasks.all.ranks`: no engine has rank 4
           ,-[gap-of-one.json:4:5]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "0-3", "right": "5-6" } } }
           :     ^^^^^^^
         5 | }
           `----
          help: let the ranks of the engines leave no gap, from 0 on; an engine that is not named begins at rank 0
        $ not-from-0.json
        [2] error: not a valid master file, 1 mistake:
          x `tasks.all.ranks`: no engine has rank 0
           ,-[not-from-0.json:4:5]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "left": "1-4", "right": "1-2" } } }
           :     ^^^^^^^
         5 | }
           `----
          help: let the ranks of the engines leave no gap, from 0 on; an engine that is not named begins at rank 0
    "#]];
    home.refuses("train", expected);
    for command in ["check", "plan"] {
        let error = home.run(format!("{command} gap.json")).failure(2);
        assert!(error.contains("`tasks.all.ranks`: no engine has ranks 4 to 5"), "{error}");
    }
    assert!(!home.path("runs").exists());
}

/// With another mistake in the names of engines it is not known whose ranks are meant.
#[test]
fn ranks_of_unknown_engines_are_not_reported_twice() {
    let home = several::home();
    let text = json!({ "engines": { "left": "first.json" },
        "tasks": { "all": { "train": ["lift"], "ranks": { "lift": "0-3" } } } });
    home.write("lift.json", text.to_string());
    let error = home.run("check lift.json").failure(2);
    assert_eq!(error.matches("did you mean `left`?").count(), 1, "{error}");
}

/// Each process is one rank.
#[test]
fn a_launcher_starts_as_many_processes_as_the_engines_have_ranks() {
    let home = home();
    let text = home.read("gap.json").replace("6-7", "3-4");
    home.write("job.json", text);
    let mut command = home.command("train job.json");
    command.envs([("RANK", "0"), ("WORLD_SIZE", "6"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "6")]);
    command.envs([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")]);
    let error = Printed::new(command.output().unwrap(), &home.path("")).failure(2);
    expect![[r#"
        error: not a valid master file, 1 mistake:
          x `tasks.all.ranks`: the engines have 5 ranks, and the launcher started 6
           ,-[job.json:4:5]
         3 |   "tasks": { "all": { "train": ["left", "right"],
         4 |     "ranks": { "right": "3-4" } } }
           :     ^^^^^^^
         5 | }
           `----
          help: have it start 5
    "#]]
    .assert_eq(&error);
}
