//! What a rank holds while it is built, by the system's account, in a process of its own: its shard, one unit more, and little else.

mod world;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use pipezero_config::{GptConfig, ModelConfig, ReductionPolicy, ResidencyConfig, Run, UnitLayers, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointReader, Checkpoints};
use pipezero_run::data::Zeros;
use pipezero_run::engine::{AboutRun, Engine, EngineError, InitialState};
use tests::{Case, small_run, zero};
use world::FolderWorld;

const NUM_RANKS: usize = 4;
const SLACK_BYTES: u64 = 64 << 20;

/// Where a process of this test finds its folder, its rank, and what it begins with.
const HOME: &str = "PIPEZERO_TEST_HOME";
const RANK: &str = "PIPEZERO_TEST_RANK";
const STATE: &str = "PIPEZERO_TEST_STATE";

/// In full 336 million parameters, 1.25 GiB of weights; else a quarter of them.
fn run(level: ZeroLevel) -> Run {
    let (hidden_size, vocab_size) = if tests::in_full() { (1024, 32_768) } else { (512, 16_384) };
    let case = Case {
        pipeline: 2,
        data: 2,
        num_micro_batches: 2,
        zero: zero(level, ResidencyConfig::Units(2), 1),
        tied: true,
        ..Case::ONE_RANK
    };
    let mut run = small_run(case);
    let ModelConfig::Gpt2(small) = run.model else { unreachable!("small runs are of GPT-2") };
    run.model = ModelConfig::Gpt2(GptConfig {
        num_layers: 24,
        hidden_size,
        num_attention_heads: 8,
        seq_length: 16,
        vocab_size,
        ..small
    });
    run.zero.unit_layers = UnitLayers::Half;
    run.zero.reduce = if level == ZeroLevel::Zero3 { ReductionPolicy::Every } else { ReductionPolicy::Last };
    run
}

/// A line of the system's account of this process, in bytes.
fn status_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the line is there");
    let kib: u64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().expect("a number of KiB");
    kib << 10
}

fn num_threads() -> u64 {
    fs::read_dir("/proc/self/task").expect("Linux has it").count() as u64
}

/// One rank: builds, and compares what the system says with what it was to hold.
fn build_rank(home: &Path, rank: usize, state: &str) {
    let file_bytes = status_bytes("RssFile");
    let plan = Plan::even_if_refused(run(ZeroLevel::Zero3)).expect("a valid run");
    let pipeline_rank = plan.forecast()[rank].pipeline_rank;
    let is_own =
        |unit: &&pipezero_plan::PlannedUnit| plan.pipeline_rank_of(unit.stage).index() == pipeline_rank;
    let lens: Vec<u64> = plan.units().iter().filter(is_own).map(|unit| unit.gradient_len() as u64).collect();
    let unit_bytes = 4 * lens.iter().max().expect("a rank has units");
    let memory = &plan.forecast()[rank].memory;
    // Memory that nothing has written to yet is not resident.
    let own_bytes = memory.parameters + if state == "checkpoint" { memory.optimizer } else { 0 };
    let start = Instant::now();
    let is_damaged = state == "damaged";
    let state = match state {
        "drawn" => InitialState::Drawn,
        "weights" => InitialState::Weights(home.join("weights.safetensors")),
        _ => InitialState::Checkpoint(Arc::new(
            CheckpointReader::open(&Checkpoints::of_run(home).at(0)).expect("a sound checkpoint"),
        )),
    };
    let world = Arc::new(FolderWorld::new(&home.join("world"), rank, NUM_RANKS));
    if is_damaged {
        let before = [status_bytes("RssAnon"), num_threads()];
        let built = Engine::with_state(plan, Arc::new(Zeros), world, &state);
        assert!(matches!(built, Err(EngineError::Checkpoint(_) | EngineError::Elsewhere)), "{built:?}");
        drop((built, state));
        // The threads of a rank's pool end soon after it, and nobody waits for them.
        while num_threads() > before[1] && start.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        let after = [status_bytes("RssAnon"), num_threads()];
        println!("rank {rank}: {before:?} bytes and threads before what fails, {after:?} after it");
        assert_eq!(after[1], before[1], "threads of rank {rank}");
        assert!(after[0] <= before[0] + (16 << 20), "rank {rank}: {before:?} bytes before, {after:?} after");
        return;
    }
    let engine = Engine::with_state(plan, Arc::new(Zeros), world, &state).expect("it is built");
    let time_s = start.elapsed().as_secs_f64();
    // Of pages of files, which the peak has too, those of the start at least.
    let peak_bytes = status_bytes("VmHWM") - file_bytes;
    let allowed_bytes = own_bytes + unit_bytes + SLACK_BYTES;
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "rank {rank}: {} MiB at most in {time_s:.2} s; {} MiB of its own, largest unit {} MiB, so {} MiB are allowed",
        mib(peak_bytes),
        mib(own_bytes),
        mib(unit_bytes),
        mib(allowed_bytes)
    );
    assert!(peak_bytes <= allowed_bytes, "rank {rank}: {peak_bytes} bytes, allowed {allowed_bytes}");
    drop(engine);
}

/// Runs the ranks, each in a process of its own, and prints what they say.
fn in_processes(home: &Path, state: &str) {
    let world = home.join("world");
    fs::create_dir_all(&world).expect("a folder");
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        command.args(["--exact", "low_memory::a_rank_is_built_in_its_shard_and_a_unit", "--nocapture"]);
        command.env(HOME, home).env(RANK, rank.to_string()).env(STATE, state);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().expect("a process starts")
    };
    let children: Vec<_> = (0..NUM_RANKS).map(start).collect();
    for child in children {
        let output = child.wait_with_output().expect("a process ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{state}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text.lines().filter(|line| line.starts_with("rank ")).for_each(|line| println!("{state}: {line}"));
    }
    fs::remove_dir_all(world).expect("the folder is removed");
}

#[test]
fn a_rank_is_built_in_its_shard_and_a_unit() {
    if let (Ok(home), Ok(rank), Ok(state)) = (std::env::var(HOME), std::env::var(RANK), std::env::var(STATE))
    {
        return build_rank(Path::new(&home), rank.parse().expect("a rank"), &state);
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    let plan = Plan::even_if_refused(run(ZeroLevel::Zero1)).expect("a valid run");
    println!("{} MiB of weights", (4 * plan.num_parameters()) >> 20);
    let mut engine = Engine::new(plan, Arc::new(Zeros)).expect("ranks start");
    engine.write_checkpoint(&Checkpoints::of_run(home.path()), &AboutRun::default()).expect("a checkpoint");
    engine.save(&home.path().join("weights.safetensors")).expect("weights");
    drop(engine);
    let start = Instant::now();
    let files = fs::read_dir(Checkpoints::of_run(home.path()).at(0)).expect("a folder");
    let num_bytes: usize =
        files.map(|file| fs::read(file.expect("a file").path()).expect("its bytes").len()).sum();
    println!(
        "{} MiB of the checkpoint are read in {:.2} s by one thread",
        num_bytes >> 20,
        start.elapsed().as_secs_f64()
    );
    for state in ["drawn", "weights", "checkpoint"] {
        in_processes(home.path(), state);
    }
    // The last bytes of a file, which its rank reads last.
    let damaged = Checkpoints::of_run(home.path()).at(0).join("rank-00001.safetensors");
    let file = fs::File::options().write(true).open(&damaged).expect("a file");
    let len = file.metadata().expect("its length").len();
    file.write_all_at(&[1, 2, 3, 4], len - 4).expect("it is written to");
    in_processes(home.path(), "damaged");
}
