//! `pipezero generate`.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::failure::{Failure, NothingLearnt};
use crate::config::{
    BatchConfig, ConfigErrors, Launch, ReductionPolicy, ResidencyConfig, Run, RunFile, ScheduleConfig,
    ZeroLevel,
};
use crate::plan::Plan;
use crate::run::data::{BatchSource, NoBatches};
use crate::run::engine::Engine;
use crate::run::generation::{Generation, Sampling};
use crate::train::RunDir;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero generate runs/quickstart --prompt 'fn main'
  pipezero generate runs/quickstart --prompt 'use std::' --temperature 0
  pipezero generate runs/quickstart --prompt 'use std::' --top-k 20 --seed 7

At --temperature 0 it is the likeliest text, and always the same.";

/// Arguments of `generate`.
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// The run directory that `train` wrote.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The text to go on from.
    #[arg(long, allow_hyphen_values = true, value_name = "TEXT", value_parser = prompt)]
    prompt: String,
    /// Tokens to write.
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: u64,
    /// Logits are divided by it: below 1 plainer, above 1 wilder, 0 takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.8, allow_negative_numbers = true, value_parser = temperature)]
    temperature: f64,
    /// Draw from so many of the likeliest tokens; 0 = all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,
    /// Seed of the draws.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
}

fn prompt(text: &str) -> Result<String, String> {
    match text {
        "" => Err("there is nothing to go on from; write at least one character".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("a temperature is a finite number from 0; write for example 0.8".to_owned()),
    }
}

/// The run on one data rank, which is all that one sequence at a time has use for. Its micro-batches stay as many as they
/// were, since a schedule file is an order of so many; [`of_one_sequence`] leaves one of them.
fn on_one_data_rank(file: RunFile) -> Result<RunFile, ConfigErrors> {
    let (run, _) = file.resolve(Launch::this_host())?;
    let num_micro_batches = run.batch.num_micro_batches;
    file.set(&[
        "parallel.data=1".to_owned(),
        "train_micro_batch_size_per_gpu=1".to_owned(),
        format!("gradient_accumulation_steps={num_micro_batches}"),
        format!("train_batch_size={num_micro_batches}"),
    ])
}

/// What bounds and shards training says nothing of a rank that only reads its weights, and must not refuse it.
fn of_one_sequence(mut run: Run) -> Run {
    run.memory_bytes = None;
    run.zero.level = ZeroLevel::Zero0;
    run.zero.reduce = ReductionPolicy::Last;
    run.zero.resident_units = ResidencyConfig::Strict;
    run.batch = BatchConfig { train_batch_size: 1, micro_batch_size: 1, num_micro_batches: 1 };
    if let ScheduleConfig::File { order, .. } = &mut run.parallel.schedule {
        *order = Arc::new(order.first_micro_batch());
    }
    run
}

pub(super) fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let directory = RunDir::open(&args.directory)?;
    let file = on_one_data_rank(RunFile::load(&directory.file(RunDir::RUN_FILE))?)?;
    let (run, _) = file.resolve(Launch::this_host())?;
    if !run.model.learns() {
        return Err(NothingLearnt("generate").into());
    }
    let run = of_one_sequence(run);
    let nothing: Arc<dyn BatchSource> = Arc::new(NoBatches);
    let mut engine = Engine::for_inference(Plan::new(run)?, nothing)?;
    engine.load(&directory.file(RunDir::WEIGHTS))?;
    let prompt = args.prompt.bytes().map(u32::from).collect();
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k, seed: args.seed };
    let mut out = stdout().lock();
    out.write_all(args.prompt.as_bytes())?;
    let mut generation = Generation::new(&mut engine, prompt, sampling);
    for _ in 0..args.max_tokens {
        let token = generation.next_token()?;
        // A token is a byte; a vocabulary larger than 256 has tokens that stand for nothing.
        out.write_all(&[u8::try_from(token).unwrap_or(b'?')])?;
        out.flush()?;
    }
    out.write_all(b"\n")?;
    Ok(())
}
