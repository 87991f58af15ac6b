//! What is refused of arguments about master files, and where and how one is started.

use expect_test::expect;

use crate::several_errors::home;

#[test]
fn arguments_that_do_not_go_with_the_file_are_refused() {
    let home = home();
    home.refuses(
        "",
        expect![[r#"
            $ train master.json
            [2] error: master.json has several tasks: name one of them with --task; they are: `pair`, `one`
            $ train master.json --task piar
            [2] error: --task piar: master.json has no such task; did you mean `pair`? its tasks are: `pair`, `one`
            $ train master.json --task third
            [2] error: --task third: master.json has no such task; its tasks are: `pair`, `one`
            $ train run.json --task pair
            [2] error: --task pair: run.json is an ordinary run file, of one model, and has no tasks: leave --task out, or name a master file (docs/several-models.md)
            $ train run.json --init a --init b
            [2] error: --init stands several times: a run begins with the weights of one; of several engines in a master file write --init ENGINE=DIR for each
            $ train master.json --task pair --set steps=4
            [2] error: not a valid run, 1 mistake:
              x it changes no key of an engine that is used
               ,-[--set:1:1]
             1 | steps=4
               : ^^^^^^^
               `----
              help: of a master file write --set engines.NAME.KEY=VALUE, with one of these as NAME: `student`, `teacher`
            $ train master.json --task pair --set engines.other.steps=4
            [2] error: not a valid run, 1 mistake:
              x it changes no key of an engine that is used
               ,-[--set:1:1]
             1 | engines.other.steps=4
               : ^^^^^^^^^^^^^^^^^^^^^
               `----
              help: of a master file write --set engines.NAME.KEY=VALUE, with one of these as NAME: `student`, `teacher`
            $ train master.json --task one --set engines.teacher.steps=4
            [2] error: not a valid run, 1 mistake:
              x it changes no key of an engine that is used
               ,-[--set:1:1]
             1 | engines.teacher.steps=4
               : ^^^^^^^^^^^^^^^^^^^^^^^
               `----
              help: of a master file write --set engines.NAME.KEY=VALUE, with one of these as NAME: `student`
            $ train single.json --set engines.student.steps=many
            [2] error: not a valid run, 1 mistake:
              x `steps` must be a whole number, but is the string "many"
               ,-[--set:1:23]
             1 | engines.student.steps=many
               :                       ^^^^
               `----
              help: write a value such as 8
            $ train single.json --set engines.student=other.json
            [2] error: not a valid run, 1 mistake:
              x it changes no key of an engine that is used
               ,-[--set:1:1]
             1 | engines.student=other.json
               : ^^^^^^^^^^^^^^^^^^^^^^^^^^
               `----
              help: of a master file write --set engines.NAME.KEY=VALUE, with one of these as NAME: `student`
            $ train master.json --task pair --set engines.teacher.stesp=4
            [2] error: not a valid run, 1 mistake:
              x unknown key `engines.teacher.stesp`
               ,-[--set:1:1]
             1 | engines.teacher.stesp=4
               : ^^^^^^^^^^^^^^^^^^^^^
               `----
              help: did you mean `steps`? that stands at master.json:36:16 already
            $ train single.json --init run
            [2] error: --init run: it names no engine of the task: of several engines write --init ENGINE=DIR, with each of these at most once: student
            $ train single.json --init teacher=run
            [2] error: --init teacher=run: it names no engine of the task: of several engines write --init ENGINE=DIR, with each of these at most once: student
            $ train single.json --init student=run --init student=other
            [2] error: --init student=other: this engine has weights to begin with already: of several engines write --init ENGINE=DIR, with each of these at most once: student
            $ train single.json --init student=nowhere
            [2] error: engine `student`: --init student=nowhere: there is no such file or folder; name a run directory, its weights.safetensors, a checkpoint's folder, or one of transformers; nothing is downloaded
            $ train single.json --resume --step 4
            [2] error: --step 4 is for one run, and a task has several engines: an engine goes on alone with pipezero resume runs/single/ENGINE
            $ train single.json --rescue saved
            [2] error: --rescue saved is for one run, and a task has several engines: an engine goes on alone with pipezero resume runs/single/ENGINE
            $ plan master.json
            [2] error: master.json has several tasks: name one of them with --task; they are: `pair`, `one`
            $ plan run.json --task pair
            [2] error: --task pair: run.json is an ordinary run file, of one model, and has no tasks: leave --task out, or name a master file (docs/several-models.md)
        "#]],
    );
    // Commands for one run alone.
    for command in [
        "simulate master.json",
        "show master.json",
        "profile master.json --out costs.json",
        "doctor master.json",
        "launch -n 2 -- doctor master.json",
    ] {
        let error = home.run(command).failure(2);
        let [message, place, repair] = [
            "`engines` is a key of a master file, which names several models; here the run file of one is needed",
            "[master.json:2:3]",
            "`train`, `check` and `plan` alone take a master file; for all else name the run file of one engine",
        ];
        assert!(
            error.contains(message) && error.contains(place) && error.contains(repair),
            "{command}: {error}"
        );
    }
    for absent in ["runs", "costs.json", "saved"] {
        assert!(!home.path(absent).exists(), "{absent}");
    }
}

/// The folder in which engines have their run directories is none itself, and theirs are replaced when asked alone.
#[test]
fn run_directories_of_engines_are_never_mixed_with_those_of_runs() {
    let home = home();
    home.run("train single.json --out out").success();
    home.refuses(
        "train",
        expect![[r#"
            $ single.json --out out
            [1] error: engine `student`: out/student already exists: go on with --resume, name another folder with --out, or replace it with --overwrite
            $ single.json --out out/student
            [1] error: out/student is the run directory of a run: --out of a master file names the folder in which each engine has its run directory
        "#]],
    );
    home.run("train single.json --out out --overwrite").success();
    assert_eq!(home.names_in("out"), ["student"]);
    // Named after the master file.
    home.run("train single.json").success();
    assert_eq!(home.names_in("runs/single"), ["student"]);
}
