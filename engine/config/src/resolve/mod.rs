//! From what is written to what is run: defaults, formulas and every rule, one concern per file.
//!
//! A rule that is broken is reported and the rest is still checked, so that one reading finds every mistake. `None`
//! means that a value could not be had and that the reason is already among the findings.

mod batch;
mod changed_default;
mod checkpoint;
mod checkpointing;
mod comm;
mod counted;
mod data;
mod foreign;
mod gpu;
mod init;
mod limits;
mod links;
mod model;
mod model_size;
mod optimizer;
mod parallel;
mod partition;
mod precision;
mod role;
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
pub(crate) use role::Role;

use super::raw::RawRun;
use super::resolved::Run;
use super::resources::Resources;
use zero_and_pipeline::Parts;

/// Resolves a whole file, for an engine of this role. A run keeps `kept_batch` sequences in a step if it is resumed.
pub(crate) fn resolve(
    raw: &RawRun,
    folder: &Path,
    resources: Resources,
    kept_batch: Option<usize>,
    role: Role<'_>,
) -> Option<Run> {
    foreign::check(raw);
    let backend = comm::backend(raw, resources);
    let device = gpu::device(raw, backend, resources);
    let precision = precision::resolve(raw, device);
    let memory_bytes = rules::memory(&raw.memory);
    let model = model::resolve(&raw.model, role.fewest_tokens(raw), folder);
    let grid = parallel::resolve(raw, model.as_ref(), folder, resources);
    let batch = role::batch(raw, grid.as_ref().map(|grid| grid.data), kept_batch, role.student());
    let zero = zero::resolve(raw, role.purpose(), grid.as_ref(), model.as_ref());
    let checkpointing = checkpointing::resolve(&raw.activation_checkpointing, zero.as_ref());
    let vocabulary = vocabulary::resolve(raw, model.as_ref(), grid.as_ref().map(|grid| &grid.schedule));
    let learning = match role.student() {
        Some(student) => role::learning_of(raw, student, folder),
        None => role::learning(raw, role, folder, batch.as_ref(), model.as_ref()),
    };
    let comm = comm::resolve(&raw.comm, backend, grid.as_ref(), resources);
    let threads = limits::threads(raw, rules::threads(&raw.threads, grid.as_ref(), resources));
    limits::check(raw, grid.as_ref(), batch.as_ref(), model.as_ref());
    gpu::check(raw, device, model.as_ref());
    if let Some(grid) = &grid {
        schedule_file::check(raw, grid, batch.as_ref());
        checkpointing::check_schedule(&raw.activation_checkpointing, &grid.schedule, checkpointing);
    }
    let parts = Parts { grid: grid.as_ref(), batch, zero: zero.as_ref(), model: model.as_ref() };
    zero_and_pipeline::check(raw, role.purpose(), parts);
    let role::Learning {
        init,
        data,
        evaluation,
        optimizer,
        train_only,
        scheduler,
        gradient_clipping,
        checkpoint,
        steps,
    } = learning?;
    Some(Run {
        purpose: role.purpose(),
        model: model?,
        tie_is_written: raw.model.tie_embeddings.is_written(),
        parallel: grid?,
        batch: batch?,
        zero: zero?,
        precision: precision?,
        checkpointing: checkpointing?,
        vocabulary: vocabulary?,
        memory_bytes: memory_bytes?,
        host_memory_bytes: resources.memory_bytes,
        device: device?,
        comm: comm?,
        threads: threads?,
        seed: raw.seed.or(0)?,
        init,
        data,
        evaluation,
        optimizer,
        train_only,
        scheduler,
        gradient_clipping,
        checkpoint,
        steps,
    })
}
