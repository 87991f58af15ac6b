//! Weights that a run begins with, and what the run file beside them says of their model.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::hugging_face::{Fit, PublishedModel};
use pipezero_config::model_sizes::{first_difference, sizes};
use pipezero_config::{ConfigErrors, ModelConfig, Resources, RunFile};
use pipezero_files::input::read_text;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointError, Checkpoints, Starts};
use pipezero_run::engine::{EngineError, InitialState, WeightsError};
use serde_json::{Value, json};

use super::run_dir::RunDir;

/// The weights that a run names to begin with, or drawn ones.
pub(super) fn initial_state(plan: &Plan) -> Result<InitialState, EngineError> {
    match &plan.run().init.from {
        Some(path) => state_of(plan, path),
        None => Ok(InitialState::Drawn),
    }
}

/// The weights of a file that [`Engine::save`](pipezero_run::engine::Engine::save) wrote, of a run directory, of a checkpoint, or of a folder of
/// transformers.
pub(super) fn state_of(plan: &Plan, path: &Path) -> Result<InitialState, EngineError> {
    if path.join(PublishedModel::FILE).is_file() {
        return Ok(InitialState::Weights(path.to_owned()));
    }
    check_run_of_weights(plan, path)?;
    let weights = if path.is_dir() { path.join(RunDir::WEIGHTS) } else { path.to_owned() };
    let starts = if path.is_dir() { Starts::read(path)? } else { Starts::default() };
    if starts.is_being_removed() {
        let reason = "the rest of a run that was being replaced".to_owned();
        return Err(CheckpointError::NotFound { path: path.to_owned(), reason }.into());
    }
    // Weights of a branch that was left are not those of the run.
    if path.is_dir() && (!weights.is_file() || starts.left_weights().is_some()) {
        return Ok(InitialState::Parameters(Arc::new(Checkpoints::open(path, None)?)));
    }
    Ok(InitialState::Weights(weights))
}

/// The model of the run of a directory, whether or not its grid fits this host.
pub(super) fn model_of_run(directory: &RunDir) -> Result<ModelConfig, ConfigErrors> {
    let path = directory.file(RunDir::RUN_FILE);
    let text = read_text(&path, RunDir::RUN_FILE_BYTES_MAX).ok();
    match text.and_then(|text| model_of(&text)) {
        Some(model) => Ok(model),
        None => Ok(RunFile::load(&path)?.resolve(Resources::this_host())?.0.model),
    }
}

/// Refuses weights beside a run file whose model computes something else with them: heads and angles show in no shape.
fn check_run_of_weights(plan: &Plan, path: &Path) -> Result<(), EngineError> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let Some(text) =
        folder.and_then(|folder| read_text(&folder.join(RunDir::RUN_FILE), RunDir::RUN_FILE_BYTES_MAX).ok())
    else {
        return Ok(());
    };
    let theirs = model_of(&text).map(|model| sizes(&model));
    let fit = if plan.new_parameters().is_empty() { Fit::Same } else { Fit::Part };
    match theirs.and_then(|theirs| first_difference(&theirs, &plan.run().model, fit)) {
        Some((key, found, needed)) => {
            let reason = format!("its run has `model.{key}` {found}, this one {needed}");
            Err(WeightsError::OtherModel { path: path.to_owned(), reason }.into())
        }
        None => Ok(()),
    }
}

/// The model of a run file, whatever else that says: its grid may not fit this host. `None` where it is not understood.
fn model_of(text: &str) -> Option<ModelConfig> {
    let run: Value = serde_json::from_str(text).ok()?;
    let alone = json!({
        "model": run.get("model")?,
        // Of any number of tokens.
        "data": {"tokens": "never-read"},
        "device": "cpu",
        "train_batch_size": 1,
        "steps": 1
    });
    let (run, _) =
        RunFile::parse("run.json", &alone.to_string()).ok()?.resolve(Resources::this_host()).ok()?;
    Some(run.model)
}
