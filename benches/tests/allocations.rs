//! No step after the first allocates more than 1 MiB at a time: units, activations, gradients and workspaces of many
//! times that live in buffers that the first step leaves behind.
//!
//! In a binary of its own with one test, since the allocator that counts is the process's, and another test's allocations
//! would count too.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use benches::{GPT2, GRIDS, Grid, LARGE_BYTES, Large, fixed_tokens, large_allocations, run};
use pipezero_config::*;
use pipezero_plan::Plan;
use pipezero_run::engine::Engine;
use pipezero_schedule::PipelineRank;

const VOCAB_SIZE: usize = 8192;
const GRID_NAMES: [&str; 3] = ["one-rank", "dp2-zero3", "pp2-dp2-zero3"];

/// What decides over the buffers of a unit, beside its size.
const FEATURES: [(Precision, Checkpointing); 3] = [
    (Precision::F32, Checkpointing::Off),
    (Precision::Bf16, Checkpointing::Off),
    (Precision::F32, Checkpointing::Unit),
];

/// GPT-2 of 4 layers, width 320, 5 heads, 64 tokens, 8192 token numbers; 4 micro-batches of a sequence, over the data ranks.
fn run_with(precision: Precision, checkpointing: Checkpointing, grid: &Grid) -> Run {
    let mut run = run();
    run.model = ModelConfig::Gpt2(GptConfig {
        num_layers: 4,
        hidden_size: 320,
        num_attention_heads: 5,
        seq_length: 64,
        vocab_size: VOCAB_SIZE,
        ..GPT2
    });
    run.batch = BatchConfig { train_batch_size: 4, micro_batch_size: 1, num_micro_batches: 4 };
    (run.precision, run.checkpointing) = (precision, checkpointing);
    grid.adapt(run)
}

/// Units of the smallest element type are so many times what counts as large.
const UNIT_TO_LARGE: usize = 2;

#[test]
fn no_step_after_the_first_makes_a_large_allocation() {
    for grid in GRIDS.iter().filter(|grid| GRID_NAMES.contains(&grid.name)) {
        for (precision, checkpointing) in FEATURES {
            let name = format!("{}, {precision:?}, checkpointing {checkpointing:?}", grid.name);
            let plan = Plan::even_if_refused(run_with(precision, checkpointing, grid)).unwrap();
            let num_units = assert_units_are_large(&plan, &name);

            let source = fixed_tokens(VOCAB_SIZE);
            let (mut engine, first) = large_allocations(|| {
                let mut engine = Engine::new(plan, source).unwrap();
                engine.train_batch().unwrap();
                engine
            });
            // Parameters and gradients of every unit at least, so what would be large is seen.
            assert!(first.count >= 2 * num_units, "{name}: the first step made {first}");
            let (report, later) = large_allocations(|| engine.train_batch().unwrap());
            assert!(report.loss.is_some(), "{name} has computed something");
            assert_eq!(later, Large::default(), "{name}: the second step made {later}");
        }
    }
}

/// The number of units.
fn assert_units_are_large(plan: &Plan, name: &str) -> usize {
    let pipeline_ranks = 0..plan.run().parallel.pipeline as u32;
    let units = pipeline_ranks.flat_map(|rank| plan.units_of(PipelineRank(rank)).map(|(_, unit)| unit));
    let element_bytes = if plan.run().precision == Precision::F32 { 4 } else { 2 };
    let bytes: Vec<usize> = units.map(|unit| element_bytes * unit.gradient_len()).collect();
    assert!(
        bytes.iter().all(|&bytes| bytes > UNIT_TO_LARGE * LARGE_BYTES),
        "{name}: units of {bytes:?} bytes"
    );
    bytes.len()
}
