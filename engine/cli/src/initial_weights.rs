//! Whether the weights that a run file names are there, and of its model.

use pipezero_config::hugging_face::PublishedModel;
use pipezero_config::{Notice, NoticeKind, Problem, RunFile};
use pipezero_plan::Plan;
use pipezero_train::Training;

use super::failure::Failure;
use super::unused_parts::{listed, shown};

const KEY: &str = "init.from";

/// Refuses weights that are not there, or that are of another model as far as headers say it, at their place in the file. A hint says what they have and
/// the model does not use.
pub(super) fn check(plan: &Plan, file: &RunFile) -> Result<Option<Notice>, Failure> {
    let Some(path) = file.initial_weights() else { return Ok(None) };
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
            // Of a folder of transformers more is said elsewhere.
            Ok(unused) if unused.is_empty() || path.join(PublishedModel::FILE).is_file() => return Ok(None),
            Ok(unused) => {
                let text = format!("{}: not read: {}", shown(&path), listed(&unused));
                return Ok(Some(Notice::new(NoticeKind::Hint, &place, text)));
            }
            Err(error) => problem(
                error.to_string(),
                "name weights of this model; parameters that they do not have are named in `init.new`",
            ),
        }
    };
    Err(Failure::Config(file.error_at(&[KEY], problem)))
}
