//! Checks that the weights that a run file or a task names exist and fit the model, and that `init.new` is not written without weights.

use std::path::Path;

use pipezero_config::hugging_face::{PublishedModel, Unused};
use pipezero_config::{EngineFile, Notice, NoticeKind, Problem, RunFile, Task};
use pipezero_plan::Plan;
use pipezero_train::Training;

use super::failure::Failure;
use super::unused_parts::{listed, shown};

const KEY: &str = "init.from";

/// That `init.new` has no effect where a run begins without weights, which draws all parameters; `kind` is a hint where they may come with `train --init`.
pub(super) fn new_to_nothing(file: &RunFile, kind: NoticeKind) -> Option<Notice> {
    const NEW: &str = "init.new";
    if !file.has(NEW) || file.initial_weights().is_some() {
        return None;
    }
    let text = match kind {
        NoticeKind::Warning => {
            "no effect: this run begins without weights, so all parameters are drawn; name weights in `init.from`, or with `--init DIR`"
        }
        _ => {
            "no effect unless the run begins with weights: name them in `init.from`, or with `train --init DIR`"
        }
    };
    Some(Notice::new(kind, &file.place(&[NEW]), text.to_owned()))
}

/// Refuses weights that are not there, or that are of another model as far as headers say it, at their place in the file. A hint says what they have and
/// the model does not use.
pub(super) fn check(plan: &Plan, file: &RunFile) -> Result<Option<Notice>, Failure> {
    let Some(path) = file.initial_weights() else { return Ok(None) };
    let place = file.place(&[KEY]);
    let unused = found(plan, &path).map_err(|Unfit { rule, repair }| {
        Failure::Config(file.error_at(&[KEY], Problem::Rule { value: place.in_quotes(), rule, repair }))
    })?;
    // Of a folder of transformers more is said elsewhere.
    if unused.is_empty() || path.join(PublishedModel::FILE).is_file() {
        return Ok(None);
    }
    let text = format!("{}: not read: {}", shown(&path), listed(&unused));
    Ok(Some(Notice::new(NoticeKind::Hint, &place, text)))
}

/// As [`check`], of the weights with which an engine of this plan begins in a task: those that the task names, else those of its run file. Where the
/// task names a path that is not there, and the file has other tasks (`has_others`), a hint says so: one of them may write it first.
pub(super) fn check_of_task(
    task: &Task,
    engine: &EngineFile,
    plan: &Plan,
    has_others: bool,
) -> Result<Option<Notice>, Failure> {
    let name = &engine.name;
    let Some(path) = task.init_of(name) else {
        return check(plan, &engine.file).map(|_| None).map_err(|failure| failure.of_engine_file(engine));
    };
    if has_others && !path.exists() {
        let text = format!(
            "there is no file or folder {} yet: `train` of another task may write it, and this one needs it",
            path.display()
        );
        return Ok(Some(task.hint_at_init(name, text)));
    }
    let unfit = |Unfit { rule, repair }| Failure::Config(task.error_at_init(name, rule, repair));
    found(plan, path).map(|_| None).map_err(unfit)
}

/// The reason why a run cannot begin with some weights, and the repair.
struct Unfit {
    rule: String,
    repair: String,
}

/// The tensors of weights that the model of a plan does not use.
fn found(plan: &Plan, path: &Path) -> Result<Vec<Unused>, Unfit> {
    let unfit = |rule: String, repair: &str| Unfit { rule, repair: repair.to_owned() };
    if !path.exists() {
        let rule = format!("there is no file or folder {}", path.display());
        return Err(unfit(
            rule,
            "name a run directory, its weights.safetensors, a checkpoint's folder, or a folder of transformers; nothing is downloaded",
        ));
    }
    let repair = match plan.run().trains() {
        true => "name weights of this model; parameters that they do not have are named in `init.new`",
        false => "name weights of this model",
    };
    Training::check_initial_weights(plan, path).map_err(|error| unfit(error.to_string(), repair))
}
