//! What the run file beside weights says of their model.

use std::path::Path;

use super::run_dir::RunDir;
use crate::files::input::read_text;
use crate::plan::Plan;
use crate::run::engine::{EngineError, WeightsError};

/// No run file is longer.
const RUN_FILE_BYTES_MAX: u64 = 64 << 20;

/// Refuses weights beside a run file whose model computes something else with them: the number of heads shows in no shape.
pub(super) fn check_run_of_weights(plan: &Plan, path: &Path) -> Result<(), EngineError> {
    let folder = if path.is_dir() { Some(path) } else { path.parent() };
    let Some(text) =
        folder.and_then(|folder| read_text(&folder.join(RunDir::RUN_FILE), RUN_FILE_BYTES_MAX).ok())
    else {
        return Ok(());
    };
    let number = |json: &serde_json::Value, key: &str| json.pointer(key).and_then(serde_json::Value::as_u64);
    let theirs = serde_json::from_str(&text).ok().and_then(|run| number(&run, "/model/num_attention_heads"));
    let model = serde_json::to_value(&plan.run().model).expect("a model has string keys and finite depth");
    match (theirs, number(&model, "/gpt2/num_attention_heads")) {
        (Some(found), Some(needed)) if found != needed => {
            let reason = format!("its run has `model.num_attention_heads` {found}, this one {needed}");
            Err(WeightsError::OtherModel { path: path.to_owned(), reason }.into())
        }
        _ => Ok(()),
    }
}
