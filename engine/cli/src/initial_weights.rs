//! Whether the weights that a run file names are there, and of its model.

use pipezero_config::{Problem, RunFile};
use pipezero_plan::Plan;
use pipezero_train::Training;

use super::failure::Failure;

const KEY: &str = "init.from";

/// Refuses weights that are not there, or that are of another model as far as headers say it, at their place in the file.
pub(super) fn check(plan: &Plan, file: &RunFile) -> Result<(), Failure> {
    let Some(path) = file.initial_weights() else { return Ok(()) };
    let place = file.place(&[KEY]);
    let value = format!("\"{}\"", place.written().trim_matches('"'));
    let problem = |rule: String, repair: &str| Problem::Rule { value, rule, repair: repair.to_owned() };
    let problem = if !path.exists() {
        let rule = format!("there is no file or folder {}", path.display());
        problem(
            rule,
            "name a run directory, its weights.safetensors, a checkpoint's folder, or a folder of transformers; nothing is downloaded",
        )
    } else {
        match Training::check_initial_weights(plan, &path) {
            Ok(_) => return Ok(()),
            Err(error) => problem(
                error.to_string(),
                "name weights of this model; parameters that they do not have are named in `init.new`",
            ),
        }
    };
    Err(Failure::Config(file.error_at(&[KEY], problem)))
}
