//! A master file in a job of processes: each engine has its ranks in all of them, and is as it is alone.

use serde_json::{Value, json};

use crate::command::{Home, Printed};
use crate::nccl::{fake_gpu, on_gpus, one_job, run};
use crate::several::{first, home, master, metrics, second, third, weights};
use crate::several_ranks::with_ranks;

/// Two engines of four ranks each, on other grids.
fn pair(home: &Home, keys: &Value) {
    let with = |mut run: Value| {
        let keys = keys.as_object().unwrap().clone();
        run.as_object_mut().unwrap().extend(keys);
        run
    };
    let mut right = with(second());
    (right["parallel"], right["train_batch_size"]) = (json!({ "data": 4 }), json!(8));
    master(home, "pair.json", &[("left", with(first())), ("right", right)]);
}

#[track_caller]
fn assert_same_engines(home: &Home, one: &str, other: &str) {
    for engine in ["left", "right"] {
        let [one, other] = [one, other].map(|run| format!("{run}/{engine}"));
        assert_eq!(metrics(home, &one), metrics(home, &other), "{engine}");
        assert!(weights(home, &one) == weights(home, &other), "{engine}");
    }
}

/// One process speaks, and each keeps what it would have said.
fn assert_is_said_once(home: &Home, printed: &Printed) {
    for engine in ["left", "right"] {
        let headline = format!("engine {engine}");
        let count = printed.stderr.lines().filter(|line| *line == headline).count();
        assert_eq!(count, 1, "{}", printed.stderr);
        for rank in 0..4 {
            let log = home.read(&format!("processes/logs/rank-0000{rank}.log"));
            assert!(log.contains(&format!("engine {engine}: rank {rank} of 4: ")), "{log}");
            assert!(log.contains(&format!("{engine}: step ")), "{log}");
        }
    }
}

#[test]
fn engines_share_processes_with_a_gpu_each() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = home();
    pair(&home, &json!({ "device": "cuda" }));
    let threads = "train pair.json --out threads --set engines.left.comm.backend=threads --set engines.right.comm.backend=threads";
    run(&home, on_gpus(&home, libraries, threads)).success();
    let processes = on_gpus(&home, libraries, "launch -n 4 -- train pair.json --out processes");
    let printed = run(&home, processes);
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    assert_same_engines(&home, "threads", "processes");
    assert_is_said_once(&home, &printed);
}

/// Three engines of two, two and four ranks, and the file of their task with these ranks.
fn on_ranks(home: &Home, keys: &Value, ranks: &Value) {
    let with = |mut run: Value| {
        run.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        run
    };
    let mut left = with(second());
    (left["parallel"], left["zero_optimization"]) = (json!({ "pipeline": 2 }), json!({ "stage": 1 }));
    let engines = [("left", left), ("right", with(second())), ("both", with(third()))];
    let named: Vec<_> = engines.into_iter().filter(|(name, _)| !ranks[name].is_null()).collect();
    master(home, "all.json", &named);
    with_ranks(home, "all.json", "job.json", ranks);
}

/// Of four processes: engines that have none in common, and engines of which each meets another, or all.
fn placements() -> [Value; 2] {
    [json!({ "left": "2-3", "right": "0-1" }), json!({ "left": "0-1", "right": "1-2", "both": "0-3" })]
}

/// What processes left is what threads left, and each engine is spoken for by the process of its rank 0.
#[track_caller]
fn assert_same_on_ranks(home: &Home, printed: &Printed, ranks: &Value) {
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    for (engine, ranks) in ranks.as_object().unwrap() {
        let [threads, processes] = ["threads", "processes"].map(|run| format!("{run}/{engine}"));
        assert_eq!(metrics(home, &threads), metrics(home, &processes), "{engine}");
        assert!(weights(home, &threads) == weights(home, &processes), "{engine}");
        let ranks = ranks.as_str().unwrap();
        let headline = format!("engine {engine} on ranks {ranks} of 4");
        let count = printed.stderr.lines().filter(|line| *line == headline).count();
        assert_eq!(count, 1, "{}", printed.stderr);
        let steps = printed.stderr.matches(&format!("{engine}: step ")).count();
        assert!((1..=5).contains(&steps), "{}", printed.stderr);
        assert_eq!(printed.stdout.matches(&format!("\nengine {engine}\n")).count(), 1, "{}", printed.stdout);
        let (first, last) = ranks.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        for rank in 0..4 {
            let log = home.read(&format!("processes/logs/rank-0000{rank}.log"));
            let place =
                format!("engine {engine}: rank {} of {}: ", rank.max(first) - first, last + 1 - first);
            assert_eq!(log.contains(&place), (first..=last).contains(&rank), "{engine} {rank}: {log}");
        }
    }
}

#[test]
fn engines_on_ranks_of_their_own_have_the_bits_of_threads_over_nccl() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = home();
    let [_, ranks] = placements();
    on_ranks(&home, &json!({ "device": "cuda" }), &ranks);
    let set = ranks.as_object().unwrap().keys();
    let set: String = set.map(|name| format!(" --set engines.{name}.comm.backend=threads")).collect();
    run(&home, on_gpus(&home, libraries, &format!("train job.json --out threads{set}"))).success();
    let line = "launch -n 4 -- train job.json --out processes";
    let printed = run(&home, on_gpus(&home, libraries, line));
    assert_same_on_ranks(&home, &printed, &ranks);
}

/// The others end after the step that they are in, and one process says what has become of all.
#[test]
fn an_engine_that_fails_over_nccl_ends_those_on_other_ranks() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = home();
    let [ranks, _] = placements();
    on_ranks(
        &home,
        &json!({ "device": "cuda", "steps": 1_000_000, "evaluation": { "every": 0, "batches": 1 } }),
        &ranks,
    );
    let rate =
        json!({ "type": "WarmupLR", "params": { "warmup_num_steps": 1_000_000, "warmup_max_lr": 1e30 } });
    let line = format!("launch -n 4 -- train job.json --out out --set engines.left.scheduler={rate}");
    let printed = run(&home, on_gpus(&home, libraries, &line));
    assert_ended_by(&home, &printed, "left", "right");
}

/// One engine has failed, and the other was ended with it.
#[track_caller]
fn assert_ended_by(home: &Home, printed: &Printed, failed: &str, other: &str) {
    assert_eq!(printed.status, Some(1), "{}", printed.stderr);
    let error = &printed.stderr[printed.stderr.find("error: ").unwrap()..];
    assert!(error.starts_with(&format!("error: engine `{failed}`: step ")), "{error}");
    assert!(error.contains(" is not finite (") && error.contains("; no weight was changed;"), "{error}");
    let step = home.names_in(&format!("out/{other}/checkpoints")).pop().unwrap();
    let step: u64 = step.strip_prefix("step-").unwrap().parse().unwrap();
    let ended = format!("\nengine `{other}`: it was ended after step {step}, with a checkpoint\n");
    assert_eq!(printed.stderr.matches(&ended).count(), 1, "{}", printed.stderr);
}

/// Over MPI.
#[cfg(feature = "mpi")]
mod mpi {
    use std::process::Child;

    use serde_json::json;

    use super::{
        assert_ended_by, assert_is_said_once, assert_same_engines, assert_same_on_ranks, on_ranks, pair,
        placements,
    };
    use crate::command::{Home, Printed};
    use crate::processes::restarted_without;
    use crate::several::{first, home, metrics, weights};

    fn ended(home: &Home, child: Child) -> Printed {
        Printed::new(child.wait_with_output().unwrap(), &home.path(""))
    }

    #[test]
    fn engines_share_the_processes_of_a_job() {
        let home = home();
        pair(&home, &json!({}));
        home.run("train pair.json --out threads").success();
        let child = crate::mpi::launch(&home, "-- train pair.json --out processes").spawn().unwrap();
        let printed = ended(&home, child);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        assert_same_engines(&home, "threads", "processes");
        assert_is_said_once(&home, &printed);
        // An engine of another number of ranks cannot.
        let line = "-- train pair.json --out other --set engines.right.parallel.data=2 --set engines.right.train_batch_size=4";
        let printed = ended(&home, crate::mpi::launch(&home, line).spawn().unwrap());
        assert_eq!(printed.status, Some(2), "{}", printed.stderr);
        assert_eq!(printed.stderr.matches("error: ").count(), 1, "{}", printed.stderr);
        assert!(printed.stderr.contains("`left` needs 4 and `right` needs 2"), "{}", printed.stderr);
    }

    #[test]
    fn engines_on_ranks_of_their_own_have_the_bits_of_threads() {
        for ranks in placements() {
            let home = home();
            on_ranks(&home, &json!({}), &ranks);
            home.run("train job.json --out threads").success();
            let child = crate::mpi::launch(&home, "-- train job.json --out processes").spawn().unwrap();
            assert_same_on_ranks(&home, &ended(&home, child), &ranks);
        }
    }

    #[test]
    fn an_engine_that_fails_ends_those_on_other_ranks() {
        let rate =
            json!({ "type": "WarmupLR", "params": { "warmup_num_steps": 1_000_000, "warmup_max_lr": 1e30 } });
        let [apart, meeting] = placements();
        let cases = [
            (&apart, "left", &["right"][..]),
            (&apart, "right", &["left"]),
            // In the middle of a round, of which other processes do the rest.
            (&meeting, "right", &["left", "both"]),
        ];
        for (ranks, failed, others) in cases {
            let home = home();
            on_ranks(
                &home,
                &json!({ "steps": 1_000_000, "evaluation": { "every": 0, "batches": 1 } }),
                ranks,
            );
            let line = format!("-- train job.json --out out --set engines.{failed}.scheduler={rate}");
            let printed = ended(&home, crate::mpi::launch(&home, &line).spawn().unwrap());
            others.iter().for_each(|other| assert_ended_by(&home, &printed, failed, other));
        }
    }

    /// A checkpoint turns out to be damaged when its ranks read it: engines of other ranks do not go on either, and what they have left stays.
    #[test]
    fn an_engine_that_cannot_start_keeps_those_on_other_ranks_from_it() {
        let home = home();
        let [ranks, _] = placements();
        on_ranks(&home, &json!({ "steps": 2, "checkpoint": { "every": 2 } }), &ranks);
        let launch = |line: &str| ended(&home, crate::mpi::launch(&home, line).spawn().unwrap());
        assert_eq!(launch("-- train job.json --out out").status, Some(0));
        let folder = home.path("out/left/checkpoints/step-00000002");
        let file = folder.join("rank-00001.safetensors");
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let before = weights(&home, "out/right");
        let more = "--set engines.left.steps=4 --set engines.right.steps=4";
        let printed = launch(&format!("-- train job.json --out out --resume {more}"));
        assert!(printed.status != Some(0), "{}", printed.stderr);
        assert_eq!(printed.stderr.matches("error: ").count(), 1, "{}", printed.stderr);
        assert!(printed.stderr.contains("the checkpoint is damaged"), "{}", printed.stderr);
        assert!(!printed.stderr.contains("right: step "), "{}", printed.stderr);
        assert!(weights(&home, "out/right") == before);
    }

    /// The engines that it does not have go on with it from their newest checkpoints too.
    #[test]
    fn a_rank_that_is_killed_ends_engines_on_other_ranks_and_each_goes_on() {
        for (ranks, killed) in placements().into_iter().zip([2, 1]) {
            let home = home();
            let keys = json!({ "steps": 200, "evaluation": { "every": 0, "batches": 1 }, "comm": { "timeout_s": 5 }, "checkpoint": { "every": 5 } });
            on_ranks(&home, &keys, &ranks);
            home.run("train job.json --out threads").success();
            let line = "--max-restarts 1 -- train job.json --out out --resume";
            let child = crate::mpi::launch(&home, line).spawn().unwrap();
            let engines: Vec<&str> = ranks.as_object().unwrap().keys().map(String::as_str).collect();
            restarted_without(&home, child, ("out", &engines), killed);
            for engine in engines {
                let [one, other] = ["threads", "out"].map(|run| weights(&home, &format!("{run}/{engine}")));
                assert!(one == other, "{engine}");
            }
        }
    }

    /// Whichever engine's turn it is.
    #[test]
    fn a_job_of_several_engines_that_loses_a_rank_goes_on_with_each() {
        let home = home();
        pair(
            &home,
            &json!({ "steps": 300, "evaluation": { "every": 0, "batches": 1 }, "comm": { "timeout_s": 5 }, "checkpoint": { "every": 5 } }),
        );
        home.run("train pair.json --out undisturbed").success();
        let line = "--max-restarts 1 -- train pair.json --out out --resume";
        let child = crate::mpi::launch(&home, line).spawn().unwrap();
        restarted_without(&home, child, ("out", &["left", "right"]), 2);
        for engine in ["left", "right"] {
            let [one, other] = ["undisturbed", "out"].map(|run| weights(&home, &format!("{run}/{engine}")));
            assert!(one == other, "{engine}");
        }
    }

    /// The teacher's logits reach every process.
    #[test]
    fn a_student_learns_from_a_teacher_of_the_same_processes() {
        let home = home();
        let mut large = first();
        (large["parallel"], large["model"]["hidden_size"]) = (json!({ "pipeline": 4 }), json!(24));
        large["zero_optimization"] = json!({ "stage": 3, "unit_layers": 0.5 });
        home.write("large.json", large.to_string());
        home.run("train large.json --out large").success();
        let teacher = json!({ "model": large["model"], "parallel": { "pipeline": 4 }, "zero_optimization": large["zero_optimization"], "threads": 1 });
        let task = json!({ "distill": { "student": "small", "teacher": "large", "temperature": 2, "alpha": 0.5 }, "init": { "large": "large" } });
        let file = json!({ "engines": { "small": first(), "large": teacher }, "tasks": { "learn": task } });
        home.write("distill.json", file.to_string());
        home.run("train distill.json --out threads").success();
        let child = crate::mpi::launch(&home, "-- train distill.json --out processes").spawn().unwrap();
        let printed = ended(&home, child);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        assert_eq!(metrics(&home, "threads/small"), metrics(&home, "processes/small"));
        assert!(weights(&home, "threads/small") == weights(&home, "processes/small"));
        home.run("train run.json --out plain").success();
        assert!(weights(&home, "plain") != weights(&home, "processes/small"));
    }
}
