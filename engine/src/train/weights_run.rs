//! What the run file beside weights says of their model.

use std::path::Path;

use serde_json::Value;

use super::run_dir::RunDir;
use crate::files::input::read_text;
use crate::model_sizes::first_difference;
use crate::plan::Plan;
use crate::run::engine::{EngineError, WeightsError};

/// Refuses weights beside a run file whose model computes something else with them: heads and angles show in no shape.
pub(super) fn check_run_of_weights(plan: &Plan, path: &Path) -> Result<(), EngineError> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let Some(text) =
        folder.and_then(|folder| read_text(&folder.join(RunDir::RUN_FILE), RunDir::RUN_FILE_BYTES_MAX).ok())
    else {
        return Ok(());
    };
    let run: Option<Value> = serde_json::from_str(&text).ok();
    let theirs = run.as_ref().and_then(|run| run.get("model")?.as_object());
    match theirs.and_then(|theirs| first_difference(theirs, &plan.run().model)) {
        Some((key, found, needed)) => {
            let reason = format!("its run has `model.{key}` {found}, this one {needed}");
            Err(WeightsError::OtherModel { path: path.to_owned(), reason }.into())
        }
        None => Ok(()),
    }
}
