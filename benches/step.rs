//! How many tokens a second does a training step take in on each grid, on the same cores? One rank with two threads is
//! the best that two cores do; the others show what a pipeline's bubble, gathers and reductions leave of it.
//!
//! ```text
//! cargo bench -p benches --bench step [-- GRID...]      one-rank, pp2, dp2-zero3, pp2-dp2-zero3; all if none is named
//! ```
//!
//! GPT-2 of 8 layers, width 512, 8 heads, 256 tokens, 512 token numbers; 8 micro-batches of 4 sequences, dealt out
//! over the data ranks. One step warms up, the median of the next three is printed, and every allocation of more than
//! 1 MiB that those three made: there are to be none.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use benches::{large_allocations, run};
use pipezero::config::{BatchConfig, ReductionPolicy, Run, ZeroLevel};
use pipezero::data::{BatchError, BatchSource, TokenBatch};
use pipezero::engine::{Engine, EngineError};
use pipezero::plan::Plan;

const SEQ_LENGTH: usize = 256;
const VOCAB_SIZE: usize = 512;
const MICRO_BATCH_SIZE: usize = 4;
const NUM_MICRO_BATCHES: usize = 8;
const NUM_STEPS: usize = 3;

/// A grid by the name that the command line knows it by.
#[derive(Clone, Copy, Debug)]
struct Grid {
    name: &'static str,
    pipeline: usize,
    data: usize,
    level: ZeroLevel,
    threads: usize,
}

const GRIDS: [Grid; 4] = [
    Grid { name: "one-rank", pipeline: 1, data: 1, level: ZeroLevel::Zero0, threads: 2 },
    Grid { name: "pp2", pipeline: 2, data: 1, level: ZeroLevel::Zero0, threads: 1 },
    Grid { name: "dp2-zero3", pipeline: 1, data: 2, level: ZeroLevel::Zero3, threads: 1 },
    Grid { name: "pp2-dp2-zero3", pipeline: 2, data: 2, level: ZeroLevel::Zero3, threads: 1 },
];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|name| GRIDS.iter().all(|grid| grid.name != **name)) {
        eprintln!("`{unknown}` is not a grid; there are {}", GRIDS.map(|grid| grid.name).join(", "));
        return ExitCode::FAILURE;
    }
    println!("{:<16}{:>12}{:>12}{:>10}  large allocations", "grid", "tokens/s", "step", "waiting");
    for grid in GRIDS.iter().filter(|grid| wanted.is_empty() || wanted.iter().any(|name| name == grid.name)) {
        if let Err(error) = measure(grid) {
            eprintln!("{}: {error}", grid.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn measure(grid: &Grid) -> Result<(), EngineError> {
    let plan = Plan::new(adapted(grid)).expect("the grids above are valid");
    let num_tokens = plan.run().batch.train_batch_size * SEQ_LENGTH;
    let mut engine = Engine::new(plan, Arc::new(FixedTokens))?;
    engine.train_batch()?;
    let (steps, large) = large_allocations(|| {
        (0..NUM_STEPS)
            .map(|_| {
                let start = Instant::now();
                let report = engine.train_batch()?;
                Ok((start.elapsed(), report.idle_share()))
            })
            .collect::<Result<Vec<_>, EngineError>>()
    });
    let mut steps = steps?;
    steps.sort_by_key(|&(time, _)| time);
    let (step, waiting) = steps[NUM_STEPS / 2];
    let (seconds, percent) = (step.as_secs_f64(), 100.0 * waiting);
    let tokens_per_s = num_tokens as f64 / seconds;
    let large =
        if large.count == 0 { "none".to_owned() } else { format!("{}: {:?}", large.count, large.bytes) };
    println!("{:<16}{tokens_per_s:>12.0}{seconds:>10.2} s{percent:>8.1} %  {large}", grid.name);
    Ok(())
}

fn adapted(grid: &Grid) -> Run {
    let mut run = run();
    run.parallel.pipeline = grid.pipeline;
    run.parallel.data = grid.data;
    run.batch = BatchConfig {
        train_batch_size: MICRO_BATCH_SIZE * NUM_MICRO_BATCHES,
        micro_batch_size: MICRO_BATCH_SIZE,
        num_micro_batches: NUM_MICRO_BATCHES / grid.data,
    };
    run.zero.level = grid.level;
    run.zero.reduce = match grid.level {
        ZeroLevel::Zero0 | ZeroLevel::Zero1 => ReductionPolicy::Last,
        ZeroLevel::Zero2 | ZeroLevel::Zero3 => ReductionPolicy::Every,
    };
    run.threads = grid.threads;
    run
}

/// The same tokens in every micro-batch: a step costs the same whatever it reads.
#[derive(Debug)]
struct FixedTokens;

impl BatchSource for FixedTokens {
    fn micro_batch(
        &self,
        _step: u64,
        _data_rank: usize,
        _micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let token = |position: usize| (position * 97 % VOCAB_SIZE) as u32;
        let places = batch.inputs.iter_mut().zip(&mut batch.targets).enumerate();
        places.for_each(|(position, (input, target))| {
            (*input, *target) = (token(position), token(position + 1))
        });
        Ok(())
    }

    fn epoch(&self, _step: u64) -> f64 {
        0.0
    }
}
