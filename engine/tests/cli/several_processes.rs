//! A master file in a job of processes: each engine has its ranks in all of them, and is as it is alone.

use serde_json::{Value, json};

use crate::command::{Home, Printed};
use crate::nccl::{imitation, on_gpus, one_job, run};
use crate::several::{first, home, master, metrics, second, weights};

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
    let Some(libraries) = imitation() else { return };
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

/// Over MPI.
#[cfg(feature = "mpi")]
mod mpi {
    use std::process::Child;

    use serde_json::json;

    use super::{assert_is_said_once, assert_same_engines, pair};
    use crate::command::{Home, Printed};
    use crate::processes::{ranks_of, signal, until};
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
        assert!(printed.stderr.contains("that is 2 ranks, and the launcher started 4"), "{}", printed.stderr);
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
        until("both engines write checkpoints", || {
            let has_one = |engine: &str| {
                let entries = std::fs::read_dir(home.path(&format!("out/{engine}/checkpoints"))).ok();
                entries.is_some_and(|entries| {
                    entries.flatten().any(|entry| entry.path().join("manifest.json").exists())
                })
            };
            (has_one("left") && has_one("right")).then_some(())
        });
        let (_, pid) = until("all ranks run", || {
            ranks_of(&child, "OMPI_COMM_WORLD_RANK").into_iter().find(|(rank, _)| *rank == 2)
        });
        signal("KILL", &pid);
        let printed = ended(&home, child);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        assert!(
            printed.stderr.contains("rank 2 was killed") && printed.stderr.contains("; restart 1 of 1"),
            "{}",
            printed.stderr
        );
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
