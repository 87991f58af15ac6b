//! What the run file beside weights says of their model.

use std::path::Path;

use serde_json::Value;

use super::run_dir::RunDir;
use crate::files::input::read_text;
use crate::plan::Plan;
use crate::run::engine::{EngineError, WeightsError};

/// Refuses weights beside a run file whose model computes something else with them: the number of heads shows in no shape.
pub(super) fn check_run_of_weights(plan: &Plan, path: &Path) -> Result<(), EngineError> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let Some(text) =
        folder.and_then(|folder| read_text(&folder.join(RunDir::RUN_FILE), RunDir::RUN_FILE_BYTES_MAX).ok())
    else {
        return Ok(());
    };
    let run: Option<Value> = serde_json::from_str(&text).ok();
    let theirs = run.as_ref().and_then(|run| run.pointer("/model/num_attention_heads")?.as_u64());
    match (theirs, plan.run().model.num_attention_heads().map(|num| num as u64)) {
        (Some(found), Some(needed)) if found != needed => {
            let reason = format!("its run has `model.num_attention_heads` {found}, this one {needed}");
            Err(WeightsError::OtherModel { path: path.to_owned(), reason }.into())
        }
        _ => Ok(()),
    }
}
