//! From what is written to what is run: defaults, formulas and every rule, one concern per file.
//!
//! A rule that is broken is reported and the rest is still checked, so that one reading finds every mistake. `None`
//! means that a value could not be had and that the reason is already among the findings.

mod batch;
mod checkpoint;
mod checkpointing;
mod comm;
mod counted;
mod data;
mod foreign;
mod gpu;
mod limits;
mod links;
mod model;
mod model_size;
mod optimizer;
mod parallel;
mod partition;
mod precision;
mod rules;
mod schedule;
mod schedule_file;
mod scheduler;
mod train_only;
mod vocabulary;
mod zero;
mod zero_and_pipeline;

use std::path::Path;

pub(crate) use data::check_data;
pub(crate) use optimizer::is_of_unknown_type;

use super::launch::Launch;
use super::raw::RawRun;
use super::resolved::Run;

/// Resolves a whole file.
pub(crate) fn resolve(raw: &RawRun, folder: &Path, launch: Launch) -> Option<Run> {
    foreign::check(raw);
    let backend = comm::backend(raw, launch);
    let device = gpu::device(raw, backend, launch);
    let precision = precision::resolve(raw, device);
    let memory_bytes = rules::memory(&raw.memory);
    let model = model::resolve(&raw.model, data::fewest_tokens(&raw.data), folder);
    let reads_text = model::may_read_text(&raw.model);
    let data = data::resolve(&raw.data, reads_text, folder);
    let evaluation = data::resolve_evaluation(&raw.evaluation, reads_text);
    let num_layers = model::num_layers(&raw.model, model.as_ref());
    let grid = parallel::resolve(&raw.parallel, num_layers, folder, launch);
    let batch = batch::resolve(raw, grid.as_ref().map(|grid| grid.data));
    let optimizer = optimizer::resolve(&raw.optimizer);
    let zero = zero::resolve(raw, grid.as_ref(), model.as_ref());
    let checkpointing = checkpointing::resolve(&raw.activation_checkpointing, zero.as_ref());
    let vocabulary = vocabulary::resolve(raw, model.as_ref(), grid.as_ref().map(|grid| &grid.schedule));
    let steps = rules::steps(raw, batch.as_ref(), model.as_ref());
    let scheduler = scheduler::resolve(&raw.scheduler, optimizer.as_ref(), steps);
    let train_only = train_only::resolve(raw);
    let checkpoint = checkpoint::resolve(&raw.checkpoint);
    let comm = comm::resolve(&raw.comm, backend, grid.as_ref());
    let gradient_clipping = raw.gradient_clipping.not_negative(raw.gradient_clipping.auto_or(1.0));
    let threads = rules::threads(&raw.threads, grid.as_ref(), launch);
    let threads = limits::threads(raw, threads);
    limits::check(raw, grid.as_ref(), batch.as_ref(), model.as_ref());
    gpu::check(raw, device, model.as_ref());
    data::check_documents(&raw.data, model.as_ref());
    let lengths = data::check_lengths(&raw.data, model.as_ref());
    if let Some(grid) = &grid {
        schedule_file::check(raw, grid, batch.as_ref());
        checkpointing::check_schedule(&raw.activation_checkpointing, &grid.schedule, checkpointing);
    }
    zero_and_pipeline::check(raw, grid.as_ref(), zero.as_ref(), model.as_ref());
    Some(Run {
        model: model?,
        data: lengths.and(data)?,
        evaluation: evaluation?,
        parallel: grid?,
        batch: batch?,
        zero: zero?,
        optimizer: optimizer?,
        train_only: train_only?,
        scheduler: scheduler?,
        gradient_clipping: gradient_clipping?,
        precision: precision?,
        checkpointing: checkpointing?,
        vocabulary: vocabulary?,
        memory_bytes: memory_bytes?,
        host_memory_bytes: launch.memory_bytes,
        checkpoint: checkpoint?,
        device: device?,
        comm: comm?,
        threads: threads?,
        steps: steps?,
        seed: raw.seed.or(0)?,
    })
}
