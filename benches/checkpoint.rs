//! How fast is a checkpoint written, next to plain parallel writes of as many bytes, and what does training lose by it?
//!
//! ```text
//! cargo bench -p benches --bench checkpoint [-- FOLDER]      writes to a new folder in FOLDER, which is the working directory if none is named
//! ```
//!
//! A GPT of 48 million parameters with AdamW on a pipeline of 2 x 2 data ranks under ZeRO-1: 3 x 4 bytes for each parameter. A round
//! measures, in turn:
//!
//! - `plain`: four threads write the bytes of a checkpoint from memory, each to a file of its own, and sync it;
//! - `waiting`: a checkpoint for which training waits; in every second round it comes before `plain`;
//! - `background`: a checkpoint that is written while training goes on, until a step has seen its end. `stall` is what it holds
//!   training up for, `step during` a step that begins and ends while it is written;
//! - `plain copy`: four threads copy as many bytes in memory;
//! - `step`: a step with nothing beside it.
//!
//! Medians of the rounds, and behind them how far they lie apart. The exit status is 1 if the median of the rounds' rates is below half of
//! what plain writes reach.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use benches::{GPT2, Samples, arguments, exit_code, fixed_tokens, run};
use pipezero_config::*;
use pipezero_plan::{Bytes, Plan};
use pipezero_run::checkpoint::Checkpoints;
use pipezero_run::engine::{AboutRun, Engine};

const NUM_ROUNDS: usize = 12;
const NUM_RANKS: usize = 4;

/// Bytes that a plain writer hands to the system at once.
const WRITE_BYTES: usize = 1 << 20;

/// The least share of the rate of plain writes.
const SHARE_MIN: f64 = 0.5;

fn main() -> ExitCode {
    exit_code(measure())
}

fn measure() -> Result<bool, Box<dyn Error>> {
    let parent = arguments().first().map_or_else(|| PathBuf::from("."), PathBuf::from);
    let home = parent.join(format!("checkpoint-bench-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let measured = rounds(&home);
    std::fs::remove_dir_all(&home)?;
    let rounds = measured?;
    let times = |of: fn(&Round) -> Duration| Samples::new(rounds.iter().map(of).collect());
    let row = |name: &str, times: &Samples| {
        let (median, spread) = (times.median().as_secs_f64(), 100.0 * times.spread());
        println!("{name:<12}{median:>8.3} s  +-{spread:.0} %");
    };
    row("plain", &times(|round| round.plain));
    row("waiting", &times(|round| round.waiting));
    row("background", &times(|round| round.background));
    row("plain copy", &times(|round| round.plain_copy));
    row("stall", &times(|round| round.stall));
    row("step", &times(|round| round.step));
    let during: Vec<Duration> = rounds.iter().flat_map(|round| round.steps_during.clone()).collect();
    if during.is_empty() {
        println!("no step began and ended while a checkpoint was written");
    } else {
        row("step during", &Samples::new(during));
    }
    let mut shares: Vec<f64> =
        rounds.iter().map(|round| round.plain.as_secs_f64() / round.waiting.as_secs_f64()).collect();
    shares.sort_by(f64::total_cmp);
    let share = shares[shares.len() / 2];
    println!("{NUM_ROUNDS} rounds: a checkpoint is written at {share:.2} of the rate of plain writes");
    Ok(share >= SHARE_MIN)
}

/// What was measured in turn.
struct Round {
    plain: Duration,
    waiting: Duration,
    background: Duration,
    stall: Duration,
    plain_copy: Duration,
    step: Duration,
    steps_during: Vec<Duration>,
}

fn rounds(home: &Path) -> Result<Vec<Round>, Box<dyn Error>> {
    let plan = Plan::new(run_of_bench())?;
    println!("{} in {NUM_RANKS} files", Bytes(12 * plan.num_parameters()));
    let vocab_size = plan.vocab_size();
    let mut engine = Engine::new(plan, fixed_tokens(vocab_size))?;
    engine.train_batch()?;
    let (to, about) = (Checkpoints::of_run(home).keeping(1), AboutRun::default());
    // Plain writes are of the same bytes: a disk may take some faster than others.
    engine.write_checkpoint(&to, &about)?;
    let file = |rank: usize| std::fs::read(to.at(1).join(format!("rank-{rank:05}.safetensors")));
    let values: Arc<Vec<Vec<u8>>> = Arc::new((0..NUM_RANKS).map(file).collect::<Result<_, _>>()?);
    let mut copies: Vec<Vec<u8>> = values.iter().map(|values| vec![0; values.len()]).collect();
    // The first of each touches memory that no later one has to.
    (0..=NUM_ROUNDS)
        .map(|index| round(index % 2 == 0, home, &mut engine, &to, &about, &values, &mut copies))
        .skip(1)
        .collect()
}

fn round(
    plain_first: bool,
    home: &Path,
    engine: &mut Engine,
    to: &Checkpoints,
    about: &AboutRun,
    values: &Arc<Vec<Vec<u8>>>,
    copies: &mut [Vec<u8>],
) -> Result<Round, Box<dyn Error>> {
    let write_plain = || {
        let plain = timed(|| plain_writes(home, values));
        (0..NUM_RANKS).try_for_each(|rank| std::fs::remove_file(plain_path(home, rank)))?;
        plain
    };
    let before = if plain_first { Some(write_plain()?) } else { None };
    engine.train_batch()?;
    let waiting = timed(|| Ok(engine.write_checkpoint(to, about)?))?;
    let plain = before.map_or_else(write_plain, Ok)?;
    engine.train_batch()?;
    let start = Instant::now();
    let stall = timed(|| Ok(engine.start_checkpoint(to, about)?))?;
    let mut steps_during = Vec::new();
    loop {
        let step = timed(|| engine.train_batch().map(drop).map_err(Box::from))?;
        if engine.poll_checkpoint()? {
            break;
        }
        steps_during.push(step);
    }
    let background = start.elapsed();
    let plain_copy = timed(|| {
        thread::scope(|scope| {
            for (copy, values) in copies.iter_mut().zip(&**values) {
                scope.spawn(|| copy.copy_from_slice(values));
            }
        });
        Ok(())
    })?;
    let step = timed(|| engine.train_batch().map(drop).map_err(Box::from))?;
    Ok(Round { plain, waiting, background, stall, plain_copy, step, steps_during })
}

/// As many files as ranks, at the same time.
fn plain_writes(home: &Path, values: &Arc<Vec<Vec<u8>>>) -> Result<(), Box<dyn Error>> {
    let writers: Vec<_> = (0..NUM_RANKS)
        .map(|rank| {
            let (path, values) = (plain_path(home, rank), Arc::clone(values));
            thread::spawn(move || -> std::io::Result<()> {
                let mut file = File::create(path)?;
                values[rank].chunks(WRITE_BYTES).try_for_each(|part| file.write_all(part))?;
                file.sync_all()
            })
        })
        .collect();
    writers.into_iter().try_for_each(|writer| Ok(writer.join().map_err(|_| "a writer panicked")??))
}

fn plain_path(home: &Path, rank: usize) -> PathBuf {
    home.join(format!("plain-{rank}"))
}

fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn run_of_bench() -> Run {
    let mut run = run();
    run.model = ModelConfig::Gpt2(GptConfig {
        num_layers: 10,
        hidden_size: 512,
        num_attention_heads: 8,
        seq_length: 64,
        vocab_size: 16_384,
        ..GPT2
    });
    run.parallel.pipeline = 2;
    run.parallel.data = 2;
    run.batch = BatchConfig { train_batch_size: 4, micro_batch_size: 1, num_micro_batches: 2 };
    run.zero.level = ZeroLevel::Zero1;
    run.zero.reduce = ReductionPolicy::Last;
    run.checkpoint = CheckpointConfig { every: Some(1), ..CheckpointConfig::default() };
    run
}
