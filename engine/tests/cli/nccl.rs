//! Ranks that are processes with a GPU each, connected by NCCL, on fake GPUs (`tests/fake_gpu`).

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fs};

use crate::command::{Home, Printed};
use crate::processes::{ranks_of, signal, until};

/// Jobs have more processes than this host has cores, so that two at once would only be late.
pub(crate) fn one_job() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of the fake CUDA libraries; `None` if there is no compiler for them.
pub(crate) fn fake_gpu() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        if Command::new("g++").arg("--version").output().is_err() {
            assert!(
                env::var_os("PIPEZERO_SKIP_NOTHING").is_none(),
                "there is no g++, which builds the fake GPU"
            );
            println!("skipped: there is no g++, which builds the fake GPU");
            return None;
        }
        let [script, folder, kernels] =
            ["tests/fake_gpu/build.sh", "target/fake-gpu", "models/src/queue/cuda/kernels"]
                .map(|path| root.join(path));
        let output = Command::new("sh").arg(script).args([&folder, &kernels]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(folder)
    };
    FOLDER.get_or_init(built).as_deref()
}

/// A command on a host with four GPUs.
pub(crate) fn on_gpus(home: &Home, libraries: &Path, line: &str) -> Command {
    let mut command = home.command(line);
    command.env("LD_LIBRARY_PATH", libraries).env("PIPEZERO_CACHE", home.path("cache"));
    command.env("FAKE_GPU_DEVICES", "4").env("FAKE_GPU_HOST", home.path("host"));
    if home.path("tmp").exists() {
        command.env("TMPDIR", home.path("tmp"));
    }
    command
}

pub(crate) fn run(home: &Home, mut command: Command) -> Printed {
    Printed::new(command.output().unwrap(), &home.path(""))
}

fn weights(home: &Home, name: &str) -> Vec<u8> {
    fs::read(home.path(&format!("{name}/weights.safetensors"))).unwrap()
}

#[test]
fn processes_with_a_gpu_each_write_the_weights_and_metrics_of_threads() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    let line = "train run.json --out threads --set device=cuda --set comm.backend=threads";
    run(&home, on_gpus(&home, libraries, line)).success();
    let line = "launch -n 4 -- train run.json --out processes --set comm.backend=nccl";
    run(&home, on_gpus(&home, libraries, line)).success();
    assert!(weights(&home, "threads") == weights(&home, "processes"));
    assert!(
        home.read("processes/logs/rank-00003.log").contains(" rank 3 of 4: pipeline rank 1, data rank 1; ")
    );
    let metrics = |name: &str| -> Vec<String> {
        let lines = home.read(&format!("{name}/metrics.jsonl"));
        let value = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
        let text = |line: &str| {
            format!("{} {} {}", value(line)["loss"], value(line)["grad_norm"], value(line)["validation_loss"])
        };
        lines.lines().map(text).collect()
    };
    assert_eq!(metrics("threads"), metrics("processes"));
    let summary: serde_json::Value = serde_json::from_str(&home.read("processes/summary.json")).unwrap();
    assert_eq!(summary["ranks_per_node"], 4, "{summary}");
    assert!(!home.read("processes/run.json").contains("ranks_per_node"), "the run file is the user's");
    for list in ["ranks", "devices"] {
        assert_eq!(summary[list].as_array().map(Vec::len), Some(4), "{list}: {summary}");
    }
    // Threads of one process, with a GPU each, where there are as many.
    let on_fewer = |line: &str| {
        let mut command = on_gpus(&home, libraries, line);
        command.env("FAKE_GPU_DEVICES", "2");
        run(&home, command)
    };
    let error = on_fewer("eval processes").failure(2);
    assert!(
        error.contains("this process sees 2 GPUs; ") && error.contains("of eval and generate --device cpu"),
        "{error}"
    );
    on_fewer("eval processes --device cpu").success();
    assert!((0..4).all(|rank| summary["devices"][rank]["ranks"] == serde_json::json!([rank])), "{summary}");
}

#[test]
fn doctor_examines_processes_with_a_gpu_each() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    let printed =
        run(&home, on_gpus(&home, libraries, "launch -n 4 -- doctor run.json --set device=cuda")).success();
    for expected in [
        "messages hold what they have to",
        "small models of 2 steps are the same",
        "memory: as planned on all 4 ranks",
        "ranks of a host: 4 each",
        "memory of GPU 3 of ",
    ] {
        assert!(printed.contains(expected), "{printed}");
    }
    let report = home.read("doctor-run.txt");
    assert!(report.contains("    GPU 3 (") && report.contains("): rank 3; "), "{report}");
    let line = "launch -n 4 -- doctor run.json --out other.txt --set device=cuda --set comm.ranks_per_node=2";
    let printed = run(&home, on_gpus(&home, libraries, line));
    assert_eq!(printed.status, Some(1), "{}", printed.stderr);
    let expected = "ranks of a host: `comm.ranks_per_node` is 2, and the hosts of this job have 4 each";
    assert!(printed.stdout.contains(expected), "{}", printed.stdout);
}

/// What makes a run long enough to be disturbed.
const LONG: &str = "--set device=cuda --set comm.timeout_s=5 --set evaluation=null \
    --set checkpoint.every=5 --set checkpoint.background=false";

fn started(home: &Home, libraries: &Path, options: &str, num_steps: u32) -> Child {
    let line =
        format!("launch -n 4 {options} -- train run.json --out out --resume --set steps={num_steps} {LONG}");
    let child = on_gpus(home, libraries, &line).spawn().unwrap();
    let checkpoints = home.path("out/checkpoints");
    until("the run writes a checkpoint", || {
        let mut entries = fs::read_dir(&checkpoints).ok()?.flatten();
        entries.any(|entry| entry.path().join("manifest.json").exists()).then_some(())
    });
    child
}

fn pid_of(child: &Child, rank: usize) -> String {
    let found = || ranks_of(child, "RANK").into_iter().find(|(found, _)| *found == rank);
    until("all ranks run", found).1
}

#[test]
fn a_job_that_loses_a_rank_is_started_again_and_ends_as_if_it_had_not() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    run(
        &home,
        on_gpus(
            &home,
            libraries,
            &format!("train run.json --out undisturbed --set steps=60 {LONG} --set comm.backend=threads"),
        ),
    )
    .success();
    for (name, rank) in [("KILL", 0), ("STOP", 2)] {
        let child = started(&home, libraries, "--max-restarts 1", 60);
        signal(name, &pid_of(&child, rank));
        let printed = Printed::new(child.wait_with_output().unwrap(), &home.path(""));
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        let said =
            [format!("launch: rank {rank} was killed, ranks "), format!("  rank {rank}, last heard of at ")];
        for said in [&said[0], &said[1], "; restart 1 of 1"] {
            assert!(printed.stderr.contains(said), "{name} of rank {rank}: {}", printed.stderr);
        }
        assert!(weights(&home, "out") == weights(&home, "undisturbed"), "{name} of rank {rank}");
        fs::remove_dir_all(home.path("out")).unwrap();
    }
}

/// Both processes by way of which the others first tell each other how they have failed.
#[test]
fn ranks_that_are_lost_together_are_told_in_one_report() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    let child = started(&home, libraries, "", 100_000);
    let lost = [0, 1].map(|rank| pid_of(&child, rank));
    // Stopped first, so that neither sees the other's end and says so.
    for name in ["STOP", "KILL"] {
        lost.iter().for_each(|pid| signal(name, pid));
    }
    let error = Printed::new(child.wait_with_output().unwrap(), &home.path("")).failure(1);
    assert_eq!(error.matches("the cause comes first").count(), 1, "{error}");
    for rank in [0, 1] {
        let ended = error.split(&format!("  rank {rank}, last heard of at ")).nth(1);
        let ended = ended.map(|said| said.split_whitespace().collect::<Vec<_>>().join(" "));
        let ended = ended.is_some_and(|said| {
            said.split(" rank ")
                .next()
                .is_some_and(|said| said.ends_with("does not answer: its process has ended"))
        });
        assert!(ended, "rank {rank}: {error}");
    }
}

/// However far it has come.
#[test]
fn a_rank_that_is_killed_at_the_start_ends_the_others_and_the_job_is_started_again() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    let line =
        "launch -n 4 --max-restarts 1 -- train run.json --out out --resume --set device=cuda --set steps=1";
    let child = on_gpus(&home, libraries, line).spawn().unwrap();
    signal("KILL", &pid_of(&child, 3));
    let printed = Printed::new(child.wait_with_output().unwrap(), &home.path(""));
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    for said in ["launch: rank 3 was killed, ", "; restart 1 of 1"] {
        assert!(printed.stderr.contains(said), "{}", printed.stderr);
    }
}

/// A SIGKILL leaves it no time to end them, nor to remove its folder; the next one does that.
#[test]
fn processes_end_after_their_step_when_launch_is_lost() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    fs::create_dir(home.path("tmp")).unwrap();
    let mut child = started(&home, libraries, "", 100_000);
    let ranks = ranks_of(&child, "RANK");
    assert_eq!(ranks.len(), 4);
    child.kill().unwrap();
    child.wait().unwrap();
    for (rank, pid) in ranks {
        until(&format!("rank {rank} ends"), || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
    }
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&home.read("out/summary.json")).unwrap()["interrupted"],
        true
    );
    let num_folders = || {
        let entries = fs::read_dir(home.path("tmp")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pipezero-")).count()
    };
    assert_eq!(num_folders(), 1);
    let line = "launch -n 4 -- train run.json --out out --set device=cuda";
    run(&home, on_gpus(&home, libraries, line)).failure(1);
    assert_eq!(num_folders(), 0);
}

/// A host without as many may be another than the one that trains.
#[test]
fn check_says_how_many_gpus_a_run_needs() {
    let Some(libraries) = fake_gpu() else { return };
    let home = Home::new();
    for (num_devices, set, valid, needed) in [
        ("4", "", "run.json is a valid run", None),
        ("1", "", "run.json is a valid run, with 1 warning", Some("4 GPUs on a host, and this one has 1")),
        ("1", "--set comm.ranks_per_node=2", "with 1 warning", Some("2 GPUs on a host, and this one has 1")),
        ("2", "--set comm.ranks_per_node=2", "run.json is a valid run", None),
    ] {
        let line = format!("check run.json --set comm.backend=nccl --set zero_optimization.stage=1 {set}");
        let mut command = on_gpus(&home, libraries, &line);
        command.env("FAKE_GPU_DEVICES", num_devices);
        let printed = run(&home, command);
        assert!(printed.stdout.contains("f32 on 4 GPUs, one for each rank, "), "{}", printed.stdout);
        assert!(printed.stdout.trim_end().ends_with(valid), "{num_devices}, {set}: {}", printed.stdout);
        let warning = needed.map(|needed| {
            format!("warning: `comm.backend`: each rank has a GPU of its own: the run needs {needed}")
        });
        assert_eq!(
            printed.stderr.contains("warning"),
            needed.is_some(),
            "{num_devices}, {set}: {}",
            printed.stderr
        );
        assert!(warning.is_none_or(|warning| printed.stderr.contains(&warning)), "{}", printed.stderr);
    }
    let printed = home.run("check run.json --set comm.backend=nccl");
    assert!(printed.stderr.contains("and this one has none (no library `libcuda.so` "), "{}", printed.stderr);
}

/// Libraries without some, which the loader then does not find.
fn libraries_without(home: &Home, libraries: &Path, missing: &[&str]) -> String {
    let folder = home.path(&missing.concat());
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(libraries).unwrap() {
        let entry = entry.unwrap();
        if !missing.iter().any(|name| entry.file_name() == **name) {
            std::os::unix::fs::symlink(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    folder.display().to_string()
}

/// Said once, and no start is tried again, since none would end otherwise.
#[test]
fn what_keeps_processes_from_connecting_their_gpus_is_said_with_a_repair() {
    let Some(libraries) = fake_gpu() else { return };
    let _one_at_a_time = one_job();
    let home = Home::new();
    let nothing = ("PIPEZERO_NOTHING", "");
    let [no_nccl, no_driver] = [&["libnccl.so"][..], &["libnccl.so", "libcuda.so"]]
        .map(|missing| libraries_without(&home, libraries, missing));
    for ((name, value), set, expected) in [
        (("CUDA_VISIBLE_DEVICES", "0"), "", "error: ranks 0 and 1 are on the same GPU of "),
        (
            ("CUDA_VISIBLE_DEVICES", "0,1,2"),
            "",
            "error: rank 3: `comm.backend` is \"nccl\", for which each rank needs a GPU of its own: there are 4 ranks on this host, and this process \
             sees 3 GPUs; use fewer ranks (`parallel.pipeline`, `parallel.data`), or have the launcher start fewer of them on each host\n",
        ),
        (("NCCL_LAUNCH_ORDER_IMPLICIT", "1"), "", "NCCL_LAUNCH_ORDER_IMPLICIT is \"1\": "),
        (
            ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
            "",
            "CUDA_DEVICE_MAX_CONNECTIONS is \"1\": a rank of this run uses 7 streams",
        ),
        (
            ("LD_LIBRARY_PATH", &*no_nccl),
            "",
            "error: rank 0: `comm.backend` \"nccl\": no library `libnccl.so.2`",
        ),
        (("LD_LIBRARY_PATH", &*no_driver), "", "error: rank 0: `device`: no library `libcuda.so`"),
        (
            nothing,
            "--set comm.ranks_per_node=2",
            "error: `comm.ranks_per_node` is 2, and the hosts of this job have 4 each: ",
        ),
    ] {
        let line = format!("launch -n 4 --max-restarts 2 -- train run.json --resume --set device=cuda {set}");
        let mut command = on_gpus(&home, libraries, &line);
        command.env(name, value);
        let error = run(&home, command).failure(2);
        assert!(error.contains(expected), "{name}={value} {set}: {error}");
        for (said, times) in [("error: ", 1), ("restart", 0), ("ended", 0), ("another process", 0)] {
            assert_eq!(error.matches(said).count(), times, "{said}, {name}={value} {set}: {error}");
        }
    }
    // One process on a host with too few GPUs, and processes that nobody has told where rank 0 is.
    let error =
        run(&home, on_gpus(&home, libraries, "train run.json --set comm.backend=nccl --set parallel.data=4"))
            .failure(2);
    let expected = "there are 8 ranks on this host, and this process sees 4 GPUs; use fewer ranks (`parallel.pipeline`, `parallel.data`), or \
                    `comm.backend` \"threads\", whose ranks share GPUs (of eval and generate --device cpu)";
    assert!(error.contains(expected), "{error}");
    let mut command = on_gpus(&home, libraries, "train run.json --set device=cuda");
    command.envs([("PMI_RANK", "0"), ("PMI_SIZE", "4")]);
    let error = run(&home, command).failure(2);
    assert!(
        error.contains("mpiexec does not say where the process of rank 0 can be reached: set MASTER_ADDR"),
        "{error}"
    );
}
