//! How many tokens a second does a training step take in on each grid, on the same cores? One rank with two threads is
//! the best that two cores do; the others show what a pipeline's bubble, gathers and reductions leave of it.
//!
//! ```text
//! cargo bench -p benches --bench step [-- GRID...]      one-rank, pp2, dp2-zero3, pp2-dp2-zero3; all if none is named
//! cargo bench -p benches --features mpi --bench step --no-run          then `mpirun -n 2 PROGRAM GRID`: each rank is a process
//! ```
//!
//! GPT-2 of 8 layers, width 512, 8 heads, 256 tokens, 512 token numbers; 8 micro-batches of 4 sequences, dealt out
//! over the data ranks. One step warms up, the median of the next three is printed, and every allocation of more than
//! 1 MiB that those three made: there are to be none, and the exit status is 1 if there were.

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use benches::{GPT2, GRIDS, Grid, Large, fixed_tokens, large_allocations, run};
use pipezero_config::{BackendName, BatchConfig};
use pipezero_plan::Plan;
use pipezero_run::engine::{Engine, EngineError};

const MICRO_BATCH_SIZE: usize = 4;
const NUM_MICRO_BATCHES: usize = 8;
const NUM_STEPS: usize = 3;

fn main() -> ExitCode {
    benches::exit_code(measure_all())
}

/// The rank of this process, if Open MPI's `mpirun` has started it.
fn rank_in_job() -> Option<String> {
    env::var("OMPI_COMM_WORLD_RANK").ok()
}

/// One process prints, and all measure.
fn prints() -> bool {
    rank_in_job().is_none_or(|rank| rank == "0")
}

fn measure_all() -> Result<bool, Box<dyn Error>> {
    let chosen = benches::chosen(&GRIDS.map(|grid| grid.name))?;
    if prints() {
        println!("{:<16}{:>12}{:>12}{:>10}  large allocations", "grid", "tokens/s", "step", "waiting");
    }
    let mut is_met = true;
    for grid in GRIDS.iter().filter(|grid| chosen.contains(&grid.name)) {
        let name = grid.name;
        let large = measure(grid).map_err(|error| format!("{name}: {error}"))?;
        if large.count > 0 {
            eprintln!("{name}: {NUM_STEPS} steps after the first made {large}; they are to make none");
            is_met = false;
        }
    }
    Ok(is_met)
}

/// Prints a grid's row, and returns the large allocations of its steps after the first.
fn measure(grid: &Grid) -> Result<Large, EngineError> {
    let mut run = run();
    run.batch = BatchConfig {
        train_batch_size: MICRO_BATCH_SIZE * NUM_MICRO_BATCHES,
        micro_batch_size: MICRO_BATCH_SIZE,
        num_micro_batches: NUM_MICRO_BATCHES,
    };
    if rank_in_job().is_some() {
        run.comm.backend = BackendName::Mpi;
    }
    let plan = Plan::new(grid.adapt(run)).expect("the grids are valid");
    let num_tokens = plan.run().batch.train_batch_size * GPT2.seq_length;
    let mut engine = Engine::new(plan, fixed_tokens(GPT2.vocab_size))?;
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
    if prints() {
        println!("{:<16}{tokens_per_s:>12.0}{seconds:>10.2} s{percent:>8.1} %  {large}", grid.name);
    }
    Ok(large)
}
