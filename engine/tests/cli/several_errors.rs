//! Mistakes in master files.

use expect_test::expect;
use serde_json::{Value, json};

use crate::command::{Home, RUN};

/// A folder with master files, each with another mistake.
pub(crate) fn home() -> Home {
    let home = Home::new();
    let run: Value = serde_json::from_str(RUN).unwrap();
    let good = json!({ "engines": { "student": "run.json", "teacher": run },
        "tasks": { "pair": { "train": ["student", "teacher"] }, "one": { "train": ["student"] } } });
    home.write("master.json", serde_json::to_string_pretty(&good).unwrap());
    home.write(
        "single.json",
        r#"{ "engines": { "student": "run.json" }, "tasks": { "one": { "train": ["student"] } } }"#,
    );
    home.write(
        "over-mpi.json",
        r#"{ "engines": { "student": "mpi.json" }, "tasks": { "one": { "train": ["student"] } } }"#,
    );
    home.write(
        "mpi.json",
        RUN.replace("\"threads\": 1", "\"threads\": 1, \"comm\": { \"backend\": \"mpi\" }"),
    );
    for (name, engines, tasks) in [
        ("unknown-engine", r#""student": "run.json""#, r#""pair": { "train": ["student", "studnet"] }"#),
        ("twice-in-task", r#""student": "run.json""#, r#""pair": { "train": ["student", "student"] }"#),
        (
            "twice-in-engines",
            r#""student": "run.json", "student": {}"#,
            r#""pair": { "train": ["student"] }"#,
        ),
        ("twice-in-tasks", r#""student": "run.json""#, r#""pair": { "train": ["student"] }, "pair": {}"#),
        (
            "unknown-kind",
            r#""student": "run.json""#,
            r#""a": { "trian": ["student"] }, "b": { "distil": {} }"#,
        ),
        (
            "bad-names",
            r#""a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json""#,
            r#""d e": { "train": [] }"#,
        ),
        (
            "bad-types",
            r#""a": 3, "b": ["run.json"]"#,
            r#""t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {}"#,
        ),
        ("absent-file", r#""student": "nowhere.json", "in": "-""#, r#""pair": { "train": ["student"] }"#),
        ("nested", r#""student": "master.json""#, r#""pair": { "train": ["student"] }"#),
        ("nothing", "", ""),
    ] {
        home.write(
            &format!("{name}.json"),
            format!("{{\n  \"engines\": {{ {engines} }},\n  \"tasks\": {{ {tasks} }}\n}}\n"),
        );
    }
    home.write(
        "absent.json",
        r#"{ "engines": { "student": "nowhere.json" }, "tasks": { "pair": { "train": ["student"] } } }"#,
    );
    home.write(
        "keys.json",
        r#"{ "_note": "a comment", "engine": {}, "model": {}, "tasks": {}, "engines": 3 }"#,
    );
    home.write("no-tasks.json", r#"{ "engines": { "student": "run.json" } }"#);
    home.write("no-engines.json", r#"{ "tasks": { "pair": { "train": ["student"] } } }"#);
    home.write("no-json.json", "{ \"engines\": { \"student\": { \"model\": } } }");
    home.write("bad-run.json", RUN.replace("\"steps\": 3", "\"stesp\": 3"));
    home.write(
        "bad-runs.json",
        format!(
            "{{\n  \"engines\": {{\n    \"inline\": {},\n    \"file\": \"bad-run.json\"\n  }},\n  \"tasks\": {{ \"both\": {{ \"train\": [\"inline\", \"file\"] }} }}\n}}\n",
            RUN.replace("\"stage\": 3", "\"stage\": 7")
        ),
    );
    home
}

#[test]
fn mistakes_in_a_master_file_are_shown_at_their_places() {
    let home = home();
    home.refuses(
        "train",
        expect![[r#"
            $ unknown-engine.json
            [2] error: not a valid master file, 1 mistake:
              x `tasks.pair.train[1]` is `studnet`, and there is no such engine
               ,-[unknown-engine.json:3:45]
             2 |   "engines": { "student": "run.json" },
             3 |   "tasks": { "pair": { "train": ["student", "studnet"] } }
               :                                             ^^^^^^^^^
             4 | }
               `----
              help: the engines are: `student`
            $ twice-in-task.json
            [2] error: not a valid master file, 1 mistake:
              x `tasks.pair.train[1]` is `student` again, which stands at 3:34
               ,-[twice-in-task.json:3:45]
             2 |   "engines": { "student": "run.json" },
             3 |   "tasks": { "pair": { "train": ["student", "student"] } }
               :                                             ^^^^^^^^^
             4 | }
               `----
              help: keep one of the two
            $ twice-in-engines.json
            [2] error: not a valid run, 1 mistake:
              x `engines.student` stands twice, first at 2:16
               ,-[twice-in-engines.json:2:39]
             1 | {
             2 |   "engines": { "student": "run.json", "student": {} },
               :                                       ^^^^^^^^^
             3 |   "tasks": { "pair": { "train": ["student"] } }
               `----
              help: keep one of the two
            $ twice-in-tasks.json
            [2] error: not a valid run, 1 mistake:
              x `tasks.pair` stands twice, first at 3:14
               ,-[twice-in-tasks.json:3:48]
             2 |   "engines": { "student": "run.json" },
             3 |   "tasks": { "pair": { "train": ["student"] }, "pair": {} }
               :                                                ^^^^^^
             4 | }
               `----
              help: keep one of the two
            $ unknown-kind.json
            [2] error: not a valid master file, 2 mistakes:
              x `tasks.a.trian`: a task has no such key
               ,-[unknown-kind.json:3:21]
             2 |   "engines": { "student": "run.json" },
             3 |   "tasks": { "a": { "trian": ["student"] }, "b": { "distil": {} } }
               :                     ^^^^^^^
             4 | }
               `----
              help: did you mean `train`?

              x `tasks.b.distil`: a task has no such key
               ,-[unknown-kind.json:3:52]
             2 |   "engines": { "student": "run.json" },
             3 |   "tasks": { "a": { "trian": ["student"] }, "b": { "distil": {} } }
               :                                                    ^^^^^^^^
             4 | }
               `----
              help: did you mean `distill`?
            $ bad-names.json
            [2] error: not a valid master file, 6 mistakes:
              x `engines.a/b`: this cannot be the name of an engine
               ,-[bad-names.json:2:16]
             1 | {
             2 |   "engines": { "a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json" },
               :                ^^^^^
             3 |   "tasks": { "d e": { "train": [] } }
               `----
              help: use ASCII letters, digits, `-`, `_` and `.`, not `.` first, and at most 64, and not `logs`: the run directory of an engine is called so

              x `engines..c`: this cannot be the name of an engine
               ,-[bad-names.json:2:35]
             1 | {
             2 |   "engines": { "a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json" },
               :                                   ^^^^
             3 |   "tasks": { "d e": { "train": [] } }
               `----
              help: use ASCII letters, digits, `-`, `_` and `.`, not `.` first, and at most 64, and not `logs`: the run directory of an engine is called so

              x `engines`: this cannot be the name of an engine
               ,-[bad-names.json:2:53]
             1 | {
             2 |   "engines": { "a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json" },
               :                                                     ^^
             3 |   "tasks": { "d e": { "train": [] } }
               `----
              help: use ASCII letters, digits, `-`, `_` and `.`, not `.` first, and at most 64, and not `logs`: the run directory of an engine is called so

              x `engines.logs`: this cannot be the name of an engine
               ,-[bad-names.json:2:69]
             1 | {
             2 |   "engines": { "a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json" },
               :                                                                     ^^^^^^
             3 |   "tasks": { "d e": { "train": [] } }
               `----
              help: use ASCII letters, digits, `-`, `_` and `.`, not `.` first, and at most 64, and not `logs`: the run directory of an engine is called so

              x `tasks.d e`: this cannot be the name of a task
               ,-[bad-names.json:3:14]
             2 |   "engines": { "a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json" },
             3 |   "tasks": { "d e": { "train": [] } }
               :              ^^^^^
             4 | }
               `----
              help: use ASCII letters, digits, `-`, `_` and `.`, not `.` first, and at most 64: the run directory of an engine is called so

              x `tasks.d e.train` names no engine
               ,-[bad-names.json:3:32]
             2 |   "engines": { "a/b": "run.json", ".c": "run.json", "": "run.json", "logs": "run.json" },
             3 |   "tasks": { "d e": { "train": [] } }
               :                                ^^
             4 | }
               `----
              help: name at least one engine
            $ bad-types.json
            [2] error: not a valid master file, 6 mistakes:
              x `engines.a` must be a path or an object, but is 3
               ,-[bad-types.json:2:21]
             1 | {
             2 |   "engines": { "a": 3, "b": ["run.json"] },
               :                     ^
             3 |   "tasks": { "t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {} }
               `----
              help: write the path of a run file, in quotes, or a run file itself, in braces

              x `engines.b` must be a path or an object, but is a list
               ,-[bad-types.json:2:29]
             1 | {
             2 |   "engines": { "a": 3, "b": ["run.json"] },
               :                             ^^^^^^^^^^^^
             3 |   "tasks": { "t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {} }
               `----
              help: write the path of a run file, in quotes, or a run file itself, in braces

              x `tasks.t` must be an object, but is a list
               ,-[bad-types.json:3:19]
             2 |   "engines": { "a": 3, "b": ["run.json"] },
             3 |   "tasks": { "t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {} }
               :                   ^^^^^
             4 | }
               `----
              help: write {"train": ["ENGINE", ...]}

              x `tasks.u.train` must be a list of engines, but is the string "a"
               ,-[bad-types.json:3:42]
             2 |   "engines": { "a": 3, "b": ["run.json"] },
             3 |   "tasks": { "t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {} }
               :                                          ^^^
             4 | }
               `----
              help: write ["ENGINE", ...]

              x `tasks.v.train[0]` must be the name of an engine, but is 1
               ,-[bad-types.json:3:66]
             2 |   "engines": { "a": 3, "b": ["run.json"] },
             3 |   "tasks": { "t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {} }
               :                                                                  ^
             4 | }
               `----
              help: write it in quotes

              x `tasks.w` does not say what the task does
               ,-[bad-types.json:3:77]
             2 |   "engines": { "a": 3, "b": ["run.json"] },
             3 |   "tasks": { "t": ["a"], "u": { "train": "a" }, "v": { "train": [1] }, "w": {} }
               :                                                                             ^^
             4 | }
               `----
              help: write {"train": ["ENGINE", ...]}, or {"distill": {"student": "ENGINE", "teacher": "ENGINE", ...}}
            $ absent-file.json
            [2] error: not a valid master file, 1 mistake:
              x `engines.in` is stdin, which only the file of the command line may be
               ,-[absent-file.json:2:49]
             1 | {
             2 |   "engines": { "student": "nowhere.json", "in": "-" },
               :                                                 ^^^
             3 |   "tasks": { "pair": { "train": ["student"] } }
               `----
              help: name a file, or write the engine's run file here
            $ absent.json
            [2] error: not a valid run, 1 mistake:
              x `engines.student`: nowhere.json: cannot read the run file: No such file or directory (os error 2)
               ,-[absent.json:1:27]
             1 | { "engines": { "student": "nowhere.json" }, "tasks": { "pair": { "train": ["student"] } } }
               :                           ^^^^^^^^^^^^^^
               `----
            $ nested.json
            [2] error: not a valid run, 1 mistake:
              x `engines` is a key of a master file, which names several models; here the run file of one is needed
               ,-[master.json:2:3]
             1 | {
             2 |   "engines": {
               :   ^^^^^^^^^
             3 |     "student": "run.json",
               `----
              help: `train`, `check` and `plan` alone take a master file; for all else name the run file of one engine, such as the run.json in its run directory
            $ nothing.json
            [2] error: not a valid master file, 2 mistakes:
              x `engines` names no engine
               ,-[nothing.json:2:14]
             1 | {
             2 |   "engines": {  },
               :              ^^^^
             3 |   "tasks": {  }
               `----
              help: name at least one engine

              x `tasks` names no task
               ,-[nothing.json:3:12]
             2 |   "engines": {  },
             3 |   "tasks": {  }
               :            ^^^^
             4 | }
               `----
              help: add a task: {"NAME": {"train": ["ENGINE", ...]}}
            $ keys.json
            [2] error: not a valid master file, 4 mistakes:
              x unknown key `engine` of a master file
               ,-[keys.json:1:25]
             1 | { "_note": "a comment", "engine": {}, "model": {}, "tasks": {}, "engines": 3 }
               :                         ^^^^^^^^
               `----
              help: did you mean `engines`?

              x unknown key `model` of a master file
               ,-[keys.json:1:39]
             1 | { "_note": "a comment", "engine": {}, "model": {}, "tasks": {}, "engines": 3 }
               :                                       ^^^^^^^
               `----
              help: a master file has `engines` and `tasks`; what is of one model belongs into the run file of its engine

              x `tasks` names no task
               ,-[keys.json:1:61]
             1 | { "_note": "a comment", "engine": {}, "model": {}, "tasks": {}, "engines": 3 }
               :                                                             ^^
               `----
              help: add a task: {"NAME": {"train": ["ENGINE", ...]}}

              x `engines` must be an object, but is 3
               ,-[keys.json:1:76]
             1 | { "_note": "a comment", "engine": {}, "model": {}, "tasks": {}, "engines": 3 }
               :                                                                            ^
               `----
              help: write {"NAME": "its-run-file.json", ...}
            $ no-tasks.json
            [2] error: not a valid master file, 1 mistake:
              x `tasks` is missing: it says which engines train together
               ,-[no-tasks.json:1:1]
             1 | { "engines": { "student": "run.json" } }
               : ^
               `----
              help: add "tasks": {"NAME": {"train": ["ENGINE", ...]}}
            $ no-engines.json
            [2] error: not a valid master file, 1 mistake:
              x `engines` is missing: it says which models there are
               ,-[no-engines.json:1:1]
             1 | { "tasks": { "pair": { "train": ["student"] } } }
               : ^
               `----
              help: add "engines": {"NAME": "its-run-file.json", ...}
            $ no-json.json
            [2] error: not a valid run, 1 mistake:
              x this is not JSON: a value belongs here, but `}` stands there
               ,-[no-json.json:1:38]
             1 | { "engines": { "student": { "model": } } }
               :                                      ^
               `----
            $ bad-runs.json
            [2] error: not a valid run, 3 mistakes:
              x `engines.inline.zero_optimization.stage` is 7, but ZeRO has the levels 0, 1, 2 and 3
                ,-[bad-runs.json:14:35]
             13 |   "parallel": { "pipeline": 2, "data": 2 },
             14 |   "zero_optimization": { "stage": 7 },
                :                                   ^
             15 |   "train_batch_size": 8,
                `----
              help: use one of them

              x `steps` is missing: it says when the run ends
               ,-[bad-run.json:1:1]
             1 | {
               : ^
             2 |   "model": {
               `----
              help: add the number of optimizer steps, such as "steps": 1000

              x unknown key `stesp`
                ,-[bad-run.json:17:3]
             16 |   "threads": 1,
             17 |   "stesp": 3,
                :   ^^^^^^^
             18 |   "seed": 3
                `----
              help: did you mean `steps`?
        "#]],
    );
    assert!(!home.path("runs").exists());
}
