//! Ranks that are processes: `launch`, and what launchers say in the environment.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::command::{Home, Printed};
use crate::processes::{ranks_of, signal, until};

pub(crate) fn launch(home: &Home, arguments: &str) -> Command {
    let mut command = home.command(format!("launch -n 4 {arguments}"));
    // Where one process may not read another's memory, Open MPI says so on every start.
    command.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    command
}

fn run(home: &Home, command: &mut Command) -> Printed {
    ended(home, command.spawn().unwrap())
}

fn ended(home: &Home, child: Child) -> Printed {
    Printed::new(child.wait_with_output().unwrap(), &home.path(""))
}

#[test]
fn processes_write_the_weights_and_metrics_of_threads() {
    let home = Home::new();
    home.run("train run.json --out threads --set comm.backend=threads").success();
    let printed = run(&home, &mut launch(&home, "-- train run.json --out processes"));
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    let weights = |name: &str| fs::read(home.path(&format!("{name}/weights.safetensors"))).unwrap();
    assert!(weights("threads") == weights("processes"));
    let losses = |name: &str| -> Vec<String> {
        let lines = home.read(&format!("{name}/metrics.jsonl"));
        let value = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
        lines.lines().map(|line| format!("{} {}", value(line)["loss"], value(line)["grad_norm"])).collect()
    };
    assert_eq!(losses("threads"), losses("processes"));
    every_rank_has_its_log(&home, &printed.stderr);
    let per_node = |name: &str| {
        let file: serde_json::Value =
            serde_json::from_str(&home.read(&format!("{name}/summary.json"))).unwrap();
        file["ranks_per_node"].as_u64()
    };
    assert_eq!(["threads", "processes"].map(per_node), [None, Some(4)]);
    let line =
        "-- train run.json --init threads --overwrite --out processes --set steps=1 --set evaluation=null";
    run(&home, &mut launch(&home, line)).success();
    assert!(home.read("processes/logs/rank-00003.log").contains("step 1/1  "));
    // Rank 0 alone knows what all have read.
    let read =
        |rank: usize| home.read(&format!("processes/logs/rank-0000{rank}.log")).matches("Z read ").count();
    assert_eq!([0, 1, 2, 3].map(read), [1, 0, 0, 0]);
}

/// The screen has the lines of rank 0, and each log those of its own rank, every one with the time.
fn every_rank_has_its_log(home: &Home, screen: &str) {
    assert_eq!(screen.matches("the first of ").count(), 1, "{screen}");
    for (rank, place) in
        ["0, data rank 0", "0, data rank 1", "1, data rank 0", "1, data rank 1"].iter().enumerate()
    {
        let log = home.read(&format!("processes/logs/rank-0000{rank}.log"));
        for said in [
            &format!("Z rank {rank} of 4: pipeline rank {place}; host "),
            "Z the first of ",
            "  loss ",
            "measured = planned",
            "Z run directory: processes",
        ] {
            assert!(log.contains(said), "{said}: {log}");
        }
        assert!(log.starts_with("20") && !log.contains("\n\n2"), "{log}");
    }
}

#[test]
fn a_job_of_the_wrong_size_or_that_cannot_be_started_again_is_refused() {
    let home = Home::new();
    let error = home.run("launch -n 3 -- train run.json").failure(2);
    assert!(error.contains("that is 4 ranks, and the launcher started 3"), "{error}");
    let error = home.run("launch -n 4 --max-restarts 2 -- train run.json").failure(2);
    assert!(error.contains("--max-restarts 2, but the command does not say --resume"), "{error}");
    let error = home.run("launch -n 0 -- train run.json").failure(2);
    assert!(error.contains("-n 0: a job has at least one process"), "{error}");
}

/// What makes a run long enough to be disturbed.
const LONG: &str = "--set steps=400 --set comm.timeout_s=3 --set evaluation=null";

/// The weights of the long run if nothing disturbs it.
fn undisturbed(home: &Home) -> Vec<u8> {
    home.run(format!("train run.json --out undisturbed {LONG}")).success();
    fs::read(home.path("undisturbed/weights.safetensors")).unwrap()
}

/// How often it keeps its state.
const CHECKPOINTS: &str = "--set checkpoint.every=5 --set checkpoint.background=false";

fn start(home: &Home, options: &str) -> Child {
    launch(home, &format!("{options} -- train run.json --out out --resume {LONG} {CHECKPOINTS}"))
        .spawn()
        .unwrap()
}

/// One process finds it, or all do.
#[test]
fn what_is_wrong_is_said_by_one_process_and_ends_all() {
    let home = Home::new();
    home.run("train run.json --out out --set steps=2 --set checkpoint.every=1").success();
    home.run("train run.json --out without").success();
    for (line, status, expected) in [
        ("--out out", 1, "error: out already exists: "),
        ("--out out --resume --step 7", 2, "error: "),
        ("--out out --resume --set steps=2", 0, "out has done all 2 steps: nothing is left to resume"),
        ("--out without --resume", 0, "without has done all 3 steps: nothing is left to resume"),
        (
            "--out new --set comm.ranks_per_node=2",
            2,
            "`comm.ranks_per_node` is 2, and the hosts of this job have 4 each: ",
        ),
        ("--out new --init nowhere", 2, "error: --init nowhere: "),
        ("--out new --rescue new/rescue", 2, "error: --rescue new/rescue is in the run directory "),
        ("--out new --trace --trace-steps 7..9", 2, "error: "),
        ("--out new --set optimizer.params.lr=1e30 --set steps=30", 1, "error: step "),
    ] {
        let printed = run(&home, &mut launch(&home, &format!("-- train run.json {line}")));
        assert_eq!(printed.status, Some(status), "{line}: {}", printed.stderr);
        assert_eq!(printed.stderr.matches(expected).count(), 1, "{line}: {}", printed.stderr);
        // Nobody had to be ended, and no rank was missed.
        for other in ["rank 1: error", "were killed", "so these are ended", "all ranks have stopped"] {
            assert!(!printed.stderr.contains(other), "{line}: {}", printed.stderr);
        }
    }
}

#[test]
fn profile_measures_processes_and_one_writes_the_costs() {
    let home = Home::new();
    let printed = run(&home, &mut launch(&home, "-- profile run.json --out costs.json --steps 4")).success();
    assert_eq!(printed.matches("mean of the ").count(), 1, "{printed}");
    home.run("simulate run.json --costs costs.json").success();
    let again = run(&home, &mut launch(&home, "-- profile run.json --out costs.json"));
    assert_eq!((again.status, again.stderr.matches("error: ").count()), (Some(1), 1), "{}", again.stderr);
}

/// Waits until the run has a checkpoint.
fn wait_for_checkpoint(home: &Home) {
    let checkpoints = home.path("out/checkpoints");
    until("the run writes a checkpoint", || {
        let mut entries = fs::read_dir(&checkpoints).ok()?.flatten();
        entries.any(|entry| entry.path().join("manifest.json").exists()).then_some(())
    });
}

#[test]
fn a_job_that_loses_a_rank_is_started_again_and_ends_as_if_it_had_not() {
    let home = Home::new();
    let expected = undisturbed(&home);
    for (name, rank) in [("KILL", 2), ("STOP", 0)] {
        let child = start(&home, "--max-restarts 1");
        wait_for_checkpoint(&home);
        let (_, pid) = until("all ranks run", || {
            ranks_of(&child, "OMPI_COMM_WORLD_RANK").into_iter().find(|(found, _)| *found == rank)
        });
        signal(name, &pid);
        let printed = ended(&home, child);
        assert_eq!(printed.status, Some(0), "{}", printed.stderr);
        let ends = format!("launch: rank {rank} was killed, ranks ");
        assert!(
            printed.stderr.contains(&ends) && printed.stderr.contains("; restart 1 of 1"),
            "{}",
            printed.stderr
        );
        assert!(printed.stderr.contains(&format!("  rank {rank}, last heard of at ")), "{}", printed.stderr);
        assert!(fs::read(home.path("out/weights.safetensors")).unwrap() == expected, "{name}");
        // Those that stayed keep the report, whether they printed it or not, and both starts.
        let log = home.read("out/logs/rank-00003.log");
        for (said, count) in [(" of 4: pipeline rank 1, ", 2), ("error: all ranks have stopped", 1)] {
            assert_eq!(log.matches(said).count(), count, "{said}: {log}");
        }
        fs::remove_dir_all(home.path("out")).unwrap();
    }
}

/// When a process has died, a plain `mpirun` asks the others to end, and kills them a second later. On a host that is busy with other tests a
/// second is too short to write a report, so this one gives them 8 s.
#[test]
fn the_report_is_out_before_mpirun_ends_those_that_are_left() {
    let home = Home::new();
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["-n", "4", "--oversubscribe", env!("CARGO_BIN_EXE_pipezero")]);
    mpirun
        .args(format!("train run.json --out out {LONG} {CHECKPOINTS}").split(' '))
        .current_dir(home.path(""));
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none").env("COLUMNS", "1000");
    mpirun.env("OMPI_MCA_odls_base_sigkill_timeout", "8");
    mpirun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = mpirun.spawn().unwrap();
    wait_for_checkpoint(&home);
    let (_, pid) = until("all ranks run", || {
        ranks_of(&child, "OMPI_COMM_WORLD_RANK").into_iter().find(|(found, _)| *found == 3)
    });
    signal("KILL", &pid);
    let printed = ended(&home, child);
    assert_ne!(printed.status, Some(0));
    let reports = printed
        .stderr
        .matches("all ranks have stopped; the cause comes first\n  rank 3, last heard of at ")
        .count();
    assert_eq!(reports, 1, "{}", printed.stderr);
}

/// A checkpoint of processes goes on as threads, and one of threads as processes.
#[test]
fn a_signal_to_launch_ends_the_run_after_its_step_and_threads_go_on() {
    let home = Home::new();
    let expected = undisturbed(&home);
    let child = start(&home, "");
    wait_for_checkpoint(&home);
    signal("TERM", &child.id().to_string());
    let printed = ended(&home, child);
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    assert!(printed.stderr.contains("the same command with --resume goes on"), "{}", printed.stderr);
    let weights = || fs::read(home.path("out/weights.safetensors")).unwrap();
    assert!(weights() != expected, "the run was ended before its last step");

    home.run(format!("train run.json --out out --resume {LONG} {CHECKPOINTS} --set steps=300")).success();
    let printed = ended(&home, start(&home, ""));
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    assert!(printed.stderr.contains("the run goes on after step 300"), "{}", printed.stderr);
    assert!(weights() == expected);
}

/// A bit of a shard is found by the rank that reads it alone.
#[test]
fn all_processes_take_an_earlier_checkpoint_where_one_finds_the_newest_damaged() {
    let home = Home::new();
    home.run("train run.json --out out --set steps=4 --set checkpoint.every=2").success();
    let shard = home.path("out/checkpoints/step-00000004/rank-00001.safetensors");
    let mut bytes = fs::read(&shard).unwrap();
    let last = bytes.len() - 9;
    bytes[last] ^= 4;
    fs::write(&shard, bytes).unwrap();
    let line = "-- train run.json --out out --resume --set steps=5 --set checkpoint.every=2";
    let printed = run(&home, &mut launch(&home, line));
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    assert!(printed.stderr.contains("the run goes on after step 2"), "{}", printed.stderr);
    assert!(printed.stderr.contains("rank-00001.safetensors: "), "{}", printed.stderr);
}

/// Nobody who waits in the start of MPI notices.
#[test]
fn launch_notices_a_process_that_is_lost_before_it_is_connected() {
    let home = Home::new();
    let child = start(&home, "--max-restarts 1");
    let (_, pid) = until("a rank runs", || {
        ranks_of(&child, "OMPI_COMM_WORLD_RANK").into_iter().find(|&(rank, _)| rank == 3)
    });
    signal("KILL", &pid);
    let printed = ended(&home, child);
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    assert!(printed.stderr.contains("; restart 1 of 1"), "{}", printed.stderr);
}

#[test]
fn variables_of_another_job_are_named_and_mean_nothing_to_launch() {
    let home = Home::new();
    let left_over = [("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")];
    run(&home, launch(&home, "-- train run.json --out out").envs(left_over)).success();
    let of_mpirun = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let error = run(&home, home.command("train run.json").envs(left_over).envs(of_mpirun)).failure(2);
    assert!(error.contains("WORLD_SIZE is 1, but OMPI_COMM_WORLD_SIZE is 4"), "{error}");
}

/// Of each process: what it has grown by since before it allocated is what was planned, 5 % and 64 MiB. MPI's own memory is shared between
/// processes, and no part of that.
#[test]
fn processes_hold_what_is_planned() {
    let home = Home::with(&[("\"hidden_size\": 16", "\"hidden_size\": 768")]);
    let printed =
        run(&home, &mut launch(&home, "-- train run.json --out out --set steps=1 --set evaluation=null"));
    printed.success();
    let summary: serde_json::Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
    let bytes = |name: &str| summary["process"][name].as_u64().unwrap();
    let (planned, grown) = (bytes("planned_bytes"), bytes("grown_bytes"));
    println!("planned {planned} bytes, grown {grown} bytes");
    assert!(planned > 100 << 20 && grown <= planned / 100 * 105 + (64 << 20), "{grown} bytes of {planned}");
    // What a rank has allocated was written before, so it is there.
    assert!(grown >= planned / 2, "{grown} bytes of {planned}");
}

#[test]
fn a_mistake_in_the_arguments_is_said_once_and_starts_nothing() {
    let home = Home::new();
    for (line, expected) in [
        ("launch -n 4 -- train run.json --bogus", "unexpected argument '--bogus'"),
        ("launch -n 4 -- launch -n 2 -- train run.json", "a job cannot start another"),
        ("launch -n 4 -- pipezero train run.json", "write the command without the name of the program"),
        ("launch -n 4 -- eval out", "start this command without `launch`"),
    ] {
        let error = home.run(line).failure(2);
        assert_eq!(error.matches(expected).count(), 1, "{error}");
        assert!(!error.contains("was killed") && !error.contains("mpirun"), "{error}");
    }
    assert!(home.run("launch -n 4 -- train --help").success().contains("Usage: pipezero train"));
}

#[test]
fn a_port_that_is_taken_is_named() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let line = format!("-- train run.json --set comm.port={}", address.port());
    let error = run(&home, &mut launch(&home, &line)).failure(1);
    let expected = format!(
        "rank 0 cannot listen on {address}: Address already in use (os error 98); set MASTER_ADDR to an address of its host, and `comm.port` to a port that is free there"
    );
    assert_eq!(error.matches(&expected).count(), 1, "{error}");
    assert!(!error.contains("and says why"), "{error}");
}

/// MPI connects only what its own launcher has started.
#[test]
fn processes_of_a_launcher_that_mpi_does_not_know_are_refused() {
    let home = Home::new();
    let mut command = home.command("train run.json --set comm.timeout_s=1");
    for (name, value) in
        [("RANK", "0"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "0"), ("MASTER_ADDR", "127.0.0.1")]
    {
        command.env(name, value);
    }
    let error = run(&home, &mut command).failure(2);
    assert!(error.contains("torchrun started 4 processes, but MPI connects 1"), "{error}");
}
