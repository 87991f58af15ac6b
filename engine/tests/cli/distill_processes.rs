//! A student and its teacher on different ranks of a job of processes: the student has the bits that it has where they share ranks.

use serde_json::{Value, json};

use crate::command::{Home, Printed};
use crate::distill;
use crate::nccl::{fake_gpu, on_gpus, one_job, run};
use crate::several::{metrics, weights};

/// Writes `apart.json`, in which the engines of `shared.json` have these ranks.
fn apart(home: &Home, ranks: &Value) {
    let text = home.read("shared.json");
    let begin = "\"learn\": {";
    assert_eq!(text.matches(begin).count(), 1, "{text}");
    home.write("apart.json", text.replace(begin, &format!("{begin} \"ranks\": {ranks}, ")));
}

#[track_caller]
fn assert_same_students(home: &Home, printed: &Printed, out: &str) {
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    let student = format!("{out}/small");
    assert_eq!(metrics(home, &student), metrics(home, "shared/small"), "{out}");
    assert!(weights(home, &student) == weights(home, "shared/small"), "{out}");
    // The teacher leaves nothing.
    assert_eq!(home.names_in(out), ["logs", "small"]);
    for engine in ["small", "large"] {
        let headline = format!("engine {engine} on ranks ");
        let count = printed.stderr.lines().filter(|line| line.starts_with(&headline)).count();
        assert_eq!(count, 1, "{}", printed.stderr);
    }
    assert_eq!(printed.stdout.matches("\nengine small\n").count(), 1, "{}", printed.stdout);
}

#[test]
fn a_teacher_on_gpus_of_its_own_teaches_the_same() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = distill::home();
    distill::write_master(&home, "shared.json", distill::teacher(2, 1, 3), &distill::task(2.0, 0.5));
    let set = |backend: &str| {
        let of = |engine: &str| {
            format!("--set engines.{engine}.device=cuda --set engines.{engine}.comm.backend={backend}")
        };
        format!("{} {} --set engines.small.steps=2", of("small"), of("large"))
    };
    let line = format!("train shared.json --out shared {}", set("threads"));
    run(&home, on_gpus(&home, libraries, &line)).success();
    apart(&home, &json!({ "small": "0-1", "large": "2-3" }));
    let line = format!("launch -n 4 -- train apart.json --out apart {}", set("nccl"));
    let printed = run(&home, on_gpus(&home, libraries, &line));
    assert_same_students(&home, &printed, "apart");
}

/// Over MPI.
#[cfg(feature = "mpi")]
mod mpi {
    use std::process::Child;

    use serde_json::{Value, json};

    use super::{apart, assert_same_students};
    use crate::command::{Home, Printed};
    use crate::distill;
    use crate::mpi::launch;
    use crate::processes::{restarted_without, signal, until};
    use crate::several::weights;

    fn ended(home: &Home, child: Child) -> Printed {
        Printed::new(child.wait_with_output().unwrap(), &home.path(""))
    }

    /// A folder with a teacher on this grid, and what its student leaves on ranks that they share.
    fn home(of_teacher: Value, set: &str) -> Home {
        let home = distill::home();
        distill::write_master(&home, "shared.json", of_teacher, &distill::task(2.0, 0.5));
        home.run(format!("train shared.json --out shared {set}")).success();
        home
    }

    #[test]
    fn a_teacher_on_other_ranks_teaches_the_same() {
        for (of_teacher, ranks) in [
            (distill::teacher(2, 1, 3), json!({ "large": "2-3" })),
            (distill::teacher(1, 2, 1), json!({ "small": "2-3", "large": "0-1" })),
            // The student is in two of its processes.
            (distill::teacher(2, 2, 3), json!({ "small": "1-2" })),
            // A process has both, one the student alone, and two the teacher alone.
            (distill::teacher(3, 1, 1), json!({ "small": "0-1", "large": "1-3" })),
        ] {
            let home = home(of_teacher, "");
            apart(&home, &ranks);
            let child = launch(&home, "-- train apart.json --out apart").spawn().unwrap();
            assert_same_students(&home, &ended(&home, child), "apart");
            // All steps are done, which the teacher's processes hear.
            let child = launch(&home, "-- train apart.json --out apart --resume").spawn().unwrap();
            let printed = ended(&home, child);
            assert_eq!(printed.status, Some(0), "{}", printed.stderr);
            assert!(printed.stderr.contains("nothing is left to resume"), "{}", printed.stderr);
        }
    }

    /// Whether a rank of the student is killed or one of the teacher, and where the student's steps go on.
    #[test]
    fn a_job_that_loses_a_rank_goes_on_to_the_same_bits() {
        let set = "--set engines.small.steps=60 --set engines.small.evaluation.every=0";
        let home = home(distill::teacher(2, 1, 3), set);
        apart(&home, &json!({ "large": "2-3" }));
        for killed in [0, 3] {
            let out = format!("out-{killed}");
            let line = format!("--max-restarts 1 -- train apart.json --out {out} --resume {set}");
            let child = launch(&home, &line).spawn().unwrap();
            restarted_without(&home, child, (&out, &["small"]), killed);
            assert!(weights(&home, &format!("{out}/small")) == weights(&home, "shared/small"), "{killed}");
        }
    }

    /// A student that fails ends its teacher, and one whose teacher fails keeps its state.
    #[test]
    fn a_failure_of_either_ends_the_other() {
        let home = home(distill::teacher(2, 1, 3), "");
        apart(&home, &json!({ "large": "2-3" }));
        let failed = |line: &str| {
            let printed = ended(&home, launch(&home, line).spawn().unwrap());
            assert_eq!(printed.status, Some(1), "{}", printed.stderr);
            printed.stderr[printed.stderr.find("error: ").unwrap()..].to_owned()
        };
        let line = "-- train apart.json --out one --set engines.small.optimizer.params.lr=1e30 --set engines.small.evaluation.every=0";
        let error = failed(line);
        assert!(error.starts_with("error: engine `small`: step "), "{error}");
        assert!(error.contains(" is saved in one/small\n"), "{error}");
        assert_eq!(error.matches("error: ").count(), 1, "{error}");
        // Weights of which no logit is a number.
        let mut broken = weights(&home, "taught");
        let half = broken.len() / 2;
        broken[half..].chunks_exact_mut(4).for_each(|bytes| bytes.copy_from_slice(&3e38_f32.to_le_bytes()));
        home.write("broken.safetensors", broken);
        let error = failed("-- train apart.json --out two --init large=broken.safetensors");
        assert!(error.starts_with("error: engine `large`: evaluation: the loss of micro-batch "), "{error}");
        assert!(error.contains("\nengine `small`: its teacher `large`: another process failed"), "{error}");
        assert!(error.contains("\nits state after step 0 is saved in two/small\n"), "{error}");
    }

    /// Ctrl-C at the launcher reaches all processes.
    #[test]
    fn a_signal_ends_the_student_and_with_it_its_teacher() {
        let endless = "--set engines.small.steps=1000000 --set engines.small.evaluation.every=0";
        let home = home(distill::teacher(2, 1, 3), "");
        apart(&home, &json!({ "large": "2-3" }));
        let child = launch(&home, &format!("-- train apart.json --out out {endless}")).spawn().unwrap();
        until("the student trains", || {
            home.path("out/small/checkpoints/step-00000002/manifest.json").exists().then_some(())
        });
        signal("TERM", &child.id().to_string());
        let printed = ended(&home, child);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        let summary: Value = serde_json::from_str(&home.read("out/small/summary.json")).unwrap();
        assert_eq!(summary["interrupted"], true);
        let steps = summary["steps"].as_u64().unwrap() + 2;
        let set = format!("--set engines.small.steps={steps} --set engines.small.evaluation.every=0");
        let line = format!("-- train apart.json --out out --resume {set}");
        let printed = ended(&home, launch(&home, &line).spawn().unwrap());
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        home.run(format!("train shared.json --out whole {set}")).success();
        assert!(weights(&home, "out/small") == weights(&home, "whole/small"));
    }
}
