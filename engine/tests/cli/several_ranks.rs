//! Engines of a task on different ranks of one job: each leaves what it leaves alone, whichever ranks it has and shares.

use std::fs;

use serde_json::{Value, json};

use crate::command::Home;
use crate::distill;
use crate::nccl::{fake_gpu, on_gpus, one_job, run};
use crate::several::{assert_same, first, home, master, metrics, pair, second, third, weights};
use crate::signals::{obeying, signalled};

/// Gives engines of a master file's only task these ranks.
pub(crate) fn with_ranks(home: &Home, from: &str, to: &str, ranks: &Value) {
    let text = home.read(from);
    let begin = "\"all\": { ";
    assert_eq!(text.matches(begin).count(), 1, "{text}");
    home.write(to, text.replace(begin, &format!("{begin}\"ranks\": {ranks}, ")));
}

#[test]
fn engines_leave_what_each_leaves_alone_on_whichever_ranks() {
    let home = home();
    let files = ["first", "second", "third"];
    for file in files {
        home.run(format!("train {file}.json --out alone-{file}")).success();
    }
    let engines = [("a", json!("first.json")), ("b", second()), ("c", json!("third.json"))];
    master(&home, "all.json", &engines);
    for (number, (ranks, num_ranks)) in [
        // Each has its own.
        (json!({ "a": "0-3", "b": "4-5", "c": "6-9" }), 10),
        // Two share some, the third none.
        (json!({ "a": "0-3", "b": "3-4", "c": "5-8" }), 9),
        // They meet by way of the last.
        (json!({ "a": "0-3", "b": "6-7", "c": "3-6" }), 8),
        // Those that are not named begin at rank 0.
        (json!({ "b": "4-5" }), 6),
    ]
    .into_iter()
    .enumerate()
    {
        with_ranks(&home, "all.json", "job.json", &ranks);
        let printed = home.run(format!("train job.json --out out-{number}"));
        let heading = |engine: &str, first: usize, last: usize| {
            format!("engine {engine} on ranks {first}-{last} of {num_ranks}\n")
        };
        let b: Vec<usize> =
            ranks["b"].as_str().unwrap().split('-').map(|rank| rank.parse().unwrap()).collect();
        assert!(
            printed.stderr.contains(&heading("a", 0, 3))
                && printed.stderr.contains(&heading("b", b[0], b[1])),
            "{}",
            printed.stderr
        );
        printed.success();
        for (name, file) in ["a", "b", "c"].into_iter().zip(files) {
            assert_same(&home, &format!("alone-{file}"), &format!("out-{number}/{name}"));
        }
    }
}

/// Engines that share no rank are each at a step of their own when the signal comes.
#[test]
fn a_signal_ends_engines_on_ranks_of_their_own_and_resume_goes_on() {
    let home = home();
    pair(&home, [1_000_000, 1_000_000], &json!({}));
    with_ranks(&home, "pair.json", "job.json", &json!({ "right": "4-5" }));
    let command = obeying("TERM", &home, "train job.json --out out");
    let (status, _, rest) = signalled(command, "TERM", "right: step 1/1000000");
    assert_eq!(status, Some(0), "{rest}");
    let steps = ["left", "right"].map(|engine| {
        let summary: Value = serde_json::from_str(&home.read(&format!("out/{engine}/summary.json"))).unwrap();
        assert_eq!(summary["interrupted"], true, "{engine}");
        let step = summary["steps"].as_u64().unwrap();
        // The other may not have done one.
        if step > 0 {
            assert_eq!(home.names_in(&format!("out/{engine}/checkpoints")), [format!("step-{step:08}")]);
        }
        step
    });
    let set = format!("--set engines.left.steps={} --set engines.right.steps={}", steps[0] + 3, steps[1] + 1);
    // On other ranks than before: they change no bit.
    home.run(format!("train pair.json --out out --resume {set}")).success();
    home.run(format!("train job.json --out whole {set}")).success();
    for engine in ["left", "right"] {
        let [out, whole] = ["out", "whole"].map(|run| weights(&home, &format!("{run}/{engine}")));
        assert!(out == whole, "{engine}");
    }
}

#[test]
fn an_engine_that_fails_ends_those_that_train_at_the_same_time() {
    let home = home();
    pair(&home, [1_000_000, 1_000_000], &json!({}));
    with_ranks(&home, "pair.json", "job.json", &json!({ "right": "4-5" }));
    for (failing, other) in [("left", "right"), ("right", "left")] {
        let out = format!("out-{failing}");
        // A rate that is too high only after some steps, so that the other has done some too.
        let line = format!(
            "train job.json --out {out} --set engines.{failing}.optimizer.params.lr=1e30 --set engines.{failing}.evaluation.every=0 --set engines.{failing}.scheduler={}",
            r#"{"type":"WarmupLR","params":{"warmup_num_steps":1000000,"warmup_min_lr":0,"warmup_max_lr":1e30}}"#
        );
        let error = home.run(&line).failure(1);
        let error = &error[error.find("error: ").unwrap()..];
        assert!(error.starts_with(&format!("error: engine `{failing}`: step ")), "{error}");
        let fate = error.lines().find(|line| line.starts_with(&format!("engine `{other}`: "))).unwrap();
        assert!(
            fate.contains("it was ended after step ")
                || fate.ends_with("it had not done a step since this start"),
            "{error}"
        );
        // The weights of the one that failed are beyond repair: it starts anew.
        let step = match fs::read_dir(home.path(&format!("{out}/{other}/checkpoints"))) {
            Ok(_) => home.names_in(&format!("{out}/{other}/checkpoints")).pop(),
            Err(_) => None,
        };
        let step: u64 = step.map_or(0, |step| step.strip_prefix("step-").unwrap().parse().unwrap());
        fs::remove_dir_all(home.path(&format!("{out}/{failing}"))).unwrap();
        let set = format!("--set engines.{other}.steps={} --set engines.{failing}.steps=1", step + 2);
        home.run(format!("train job.json --out {out} --resume {set}")).success();
        home.run(format!("train job.json --out whole-{failing} {set}")).success();
        let [out, whole] =
            [out, format!("whole-{failing}")].map(|run| weights(&home, &format!("{run}/{other}")));
        assert!(out == whole, "{other}");
    }
}

#[test]
fn a_teacher_has_ranks_of_its_own() {
    let home = distill::home();
    distill::write_master(&home, "shared.json", distill::teacher(2, 1, 3), &distill::task(2.0, 0.5));
    home.run("train shared.json --out shared").success();
    let text = home.read("shared.json");
    for (number, ranks) in
        [json!({ "large": "2-3" }), json!({ "small": "1-2", "large": "0-1" })].into_iter().enumerate()
    {
        let task = format!("\"learn\": {{ \"ranks\": {ranks}, ");
        home.write("apart.json", text.replace("\"learn\": {", &task));
        home.run(format!("train apart.json --out apart-{number}")).success();
        assert_eq!(metrics(&home, &format!("apart-{number}/small")), metrics(&home, "shared/small"));
        assert!(weights(&home, &format!("apart-{number}/small")) == weights(&home, "shared/small"));
    }
    let checked = home.run("check apart.json").success();
    assert!(checked.contains("; small on ranks 1-2 of 3; large on ranks 0-1 of 3; "), "{checked}");
}

/// The memory is that of each rank of the job.
#[test]
fn plan_and_check_say_where_engines_are() {
    let home = home();
    pair(&home, [2, 2], &json!({}));
    with_ranks(&home, "pair.json", "job.json", &json!({ "right": "3-4" }));
    let alone = ["first", "second"].map(|file| home.json(format!("plan {file}.json --json")));
    let job = home.json("plan job.json --json");
    let peak = |plan: &Value, rank: usize| plan["ranks"][rank]["memory"]["peak"].as_u64().unwrap();
    let left = |rank| peak(&alone[0], rank);
    let right = |rank| peak(&alone[1], rank);
    assert_eq!(job["together"]["ranks"], json!([left(0), left(1), left(2), left(3) + right(0), right(1)]));
    assert_eq!(job["ranks"], json!({ "left": [0, 3], "right": [3, 4] }));
    let text = home.run("plan job.json").success();
    assert!(
        text.starts_with("engine left on ranks 0-3 of 5\n")
            && text.contains("\nengine right on ranks 3-4 of 5\n"),
        "{text}"
    );
    let table = &text[text.find("peak memory together").unwrap()..];
    expect_test::expect![[r#"
        peak memory together        left       right    together
        each of ranks 0-1     332.12 KiB           -  332.12 KiB
        rank 2                206.00 KiB           -  206.00 KiB
        rank 3                206.00 KiB  321.94 KiB  527.94 KiB
        rank 4                         -  321.94 KiB  321.94 KiB
        all ranks               1.05 MiB  643.88 KiB    1.68 MiB
        of a rank: what a GPU holds of all engines if each of their ranks has one; of all ranks: what a host holds that has all of them
    "#]].assert_eq(table);
    let checked = home.run("check job.json").success();
    expect_test::expect![[r#"
        task all: trains left, right; left on ranks 0-3 of 5; right on ranks 3-4 of 5; 1.68 MiB of memory in all
        job.json is a valid master file: 2 engines, 1 task
    "#]].assert_eq(&checked[checked.find("task all").unwrap()..]);
}

/// A grid may leave its data degree to its ranks.
#[test]
fn the_data_degree_follows_from_the_ranks() {
    let home = home();
    let mut auto = first();
    auto["parallel"] = json!({ "pipeline": 2, "data": "auto" });
    master(&home, "pair.json", &[("left", auto), ("right", third())]);
    with_ranks(&home, "pair.json", "job.json", &json!({ "left": "4-7" }));
    home.run("train job.json --out out").success();
    home.run("train first.json --out alone").success();
    assert!(weights(&home, "out/left") == weights(&home, "alone"));
    // The run directory has it, for the engine alone; `check` says it too.
    home.run("eval out/left").success();
    let checked = home.run("check job.json").success();
    assert!(checked.contains("grid        pipeline 2 x data 2: 4 ranks"), "{checked}");
    let error = home.run("train job.json --out other --set engines.left.parallel.pipeline=3").failure(2);
    assert!(error.contains("`ranks` of the task gives it 4 ranks, which it does not divide"), "{error}");
}

/// The GPU of a rank is that of the job's rank, whether ranks share GPUs or have one each.
#[test]
fn engines_have_the_gpus_of_their_ranks() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = home();
    let mut left = second();
    (left["parallel"], left["zero_optimization"]) = (json!({ "pipeline": 2 }), json!({ "stage": 1 }));
    master(&home, "pair.json", &[("left", left.clone()), ("right", second())]);
    let set = |backend: &str| {
        let of = |engine: &str| {
            format!("--set engines.{engine}.device=cuda --set engines.{engine}.comm.backend={backend}")
        };
        format!("{} {}", of("left"), of("right"))
    };
    let gpus = |run: &str| {
        let summary: Value = serde_json::from_str(&home.read(&format!("{run}/summary.json"))).unwrap();
        let devices = summary["devices"].as_array().unwrap();
        let number =
            |device: &Value| device["device"].as_str().unwrap().split(' ').next_back().unwrap().to_owned();
        devices.iter().map(number).collect::<Vec<_>>()
    };
    run(&home, on_gpus(&home, libraries, &format!("train pair.json --out shared {}", set("threads"))))
        .success();
    // Rank 0 has an engine, which may train on the host's cores.
    let engines = [("left", left), ("right", second()), ("zeroth", third())];
    for (number, (ranks, backend, expected)) in [
        (json!({ "left": "0-1", "right": "2-3" }), "threads", [["0", "1"], ["2", "3"]]),
        (json!({ "left": "2-3", "right": "1-2" }), "threads", [["2", "3"], ["1", "2"]]),
        (json!({ "left": "0-1", "right": "2-3" }), "nccl", [["0", "1"], ["2", "3"]]),
    ]
    .into_iter()
    .enumerate()
    {
        let num_engines = if ranks["left"] == "0-1" { 2 } else { 3 };
        master(&home, "pair.json", &engines[..num_engines]);
        with_ranks(&home, "pair.json", "job.json", &ranks);
        let line = format!("train job.json --out out-{number} {}", set(backend));
        run(&home, on_gpus(&home, libraries, &line)).success();
        for (engine, expected) in ["left", "right"].into_iter().zip(expected) {
            let out = format!("out-{number}/{engine}");
            assert_eq!(gpus(&out), expected, "{out}");
            assert_eq!(metrics(&home, &out), metrics(&home, &format!("shared/{engine}")));
            assert!(weights(&home, &out) == weights(&home, &format!("shared/{engine}")), "{out}");
        }
    }
    let line = format!("train job.json --out few {}", set("nccl"));
    let mut command = on_gpus(&home, libraries, &line);
    command.env("FAKE_GPU_DEVICES", "3");
    let error = run(&home, command).failure(2);
    assert!(error.contains("there are 4 ranks on this host, and this process sees 3 GPUs"), "{error}");
}
