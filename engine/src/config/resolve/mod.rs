//! From what is written to what is run: defaults, formulas and every rule, one concern per file.
//!
//! A rule that is broken is reported and the rest is still checked, so that one reading finds every mistake. `None`
//! means that a value could not be had and that the reason is already among the findings.

mod batch;
mod checkpointing;
mod comm;
mod counted;
mod data;
mod foreign;
mod grid;
mod limits;
mod links;
mod model;
mod optimizer;
mod parallel;
mod partition;
mod rules;
mod schedule;
mod schedule_file;
mod scheduled;
mod scheduler;
mod zero;
mod zero_and_pipeline;

pub(crate) mod precision;

use std::path::Path;

pub(crate) use data::check_texts;

use super::findings::Findings;
use super::launch::Launch;
use super::raw::RawRun;
use super::resolved::Run;

/// Resolves a whole file.
pub(crate) fn resolve(raw: &RawRun, folder: &Path, launch: Launch, findings: &mut Findings) -> Option<Run> {
    foreign::check(raw, findings);
    let precision = precision::resolve(&raw.bf16, &raw.fp16, findings);
    let memory_bytes = rules::memory(&raw.memory, findings);
    let model = model::resolve(&raw.model, findings);
    let reads_text = model::may_read_text(&raw.model);
    let data = data::resolve(&raw.data, reads_text, folder, findings);
    let evaluation = data::resolve_evaluation(&raw.evaluation, reads_text, findings);
    let grid = parallel::resolve(&raw.parallel, &raw.model.num_layers, folder, launch, findings);
    let batch = batch::resolve(raw, grid.as_ref().map(|grid| grid.data), findings);
    let optimizer = optimizer::resolve(&raw.optimizer, findings);
    let zero = zero::resolve(raw, model.as_ref(), findings);
    let checkpointing = checkpointing::resolve(&raw.activation_checkpointing, zero.as_ref(), findings);
    let steps = rules::steps(raw, batch.as_ref(), model.as_ref(), findings);
    let scheduler = scheduler::resolve(&raw.scheduler, optimizer.as_ref(), steps, findings);
    let comm = comm::resolve(&raw.comm, grid.as_ref(), findings);
    let gradient_clipping = rules::gradient_clipping(&raw.gradient_clipping, findings);
    let threads = rules::threads(&raw.threads, grid.as_ref(), launch, findings);
    let threads = limits::threads(raw, threads, findings);
    limits::check(raw, grid.as_ref(), batch.as_ref(), model.as_ref(), findings);
    if let Some(grid) = &grid {
        schedule_file::check(raw, grid, batch.as_ref(), findings);
        let section = &raw.activation_checkpointing;
        checkpointing::check_schedule(section, &grid.schedule, checkpointing, findings);
    }
    zero_and_pipeline::check(raw, grid.as_ref(), zero.as_ref(), model.as_ref(), findings);
    Some(Run {
        model: model?,
        data: data?,
        evaluation: evaluation?,
        parallel: grid?.into_config(),
        batch: batch?,
        zero: zero?,
        optimizer: optimizer?,
        scheduler: scheduler?,
        gradient_clipping: gradient_clipping?,
        precision: precision?,
        checkpointing: checkpointing?,
        memory_bytes: memory_bytes?,
        comm: comm?,
        threads: threads?,
        steps: steps?,
        seed: raw.seed.or(0)?,
    })
}
