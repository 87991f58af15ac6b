//! That frozen parameters keep the values that they begin with, which are random unless the run is given others.

use pipezero_config::{Notice, NoticeKind, RunFile};
use pipezero_plan::Plan;

/// That a run which begins now draws them.
pub(super) fn are_drawn(plan: &Plan, file: &RunFile, engine: Option<&str>) -> Option<Notice> {
    notice(plan, file, NoticeKind::Warning, |num_frozen| {
        format!(
            "{num_frozen} frozen parameters keep the random values that they are drawn with, since nothing says with which weights the run \
             begins: name those of a trained model, `{}`",
            init(engine)
        )
    })
}

/// That they will be drawn unless `train` is given weights.
pub(super) fn may_be_drawn(plan: &Plan, file: &RunFile, engine: Option<&str>) -> Option<Notice> {
    if file.initial_weights().is_some() {
        return new_ones_are_frozen(plan, file);
    }
    notice(plan, file, NoticeKind::Hint, |num_frozen| {
        format!(
            "{num_frozen} frozen parameters keep the values that they begin with: random ones, unless `train {}` reads those of a trained \
             model",
            init(engine)
        )
    })
}

/// That a run which begins with weights draws parameters that it does not train.
pub(super) fn new_ones_are_frozen(plan: &Plan, file: &RunFile) -> Option<Notice> {
    let entries = plan.owned_units().flat_map(|(_, unit)| unit.frozen_entries());
    let new: Vec<&str> = entries.map(|entry| &*entry.spec.name).filter(|name| plan.is_new(name)).collect();
    let text = format!(
        "{} is new and not trained: it keeps the random values that it is drawn with; train it, or begin with weights that have it",
        new.first()?
    );
    Some(Notice::new(NoticeKind::Warning, &file.place(&["train_only"]), text))
}

fn notice(plan: &Plan, file: &RunFile, kind: NoticeKind, text: impl Fn(u64) -> String) -> Option<Notice> {
    let num_frozen = plan.num_frozen_parameters();
    (num_frozen > 0).then(|| Notice::new(kind, &file.place(&["train_only"]), text(num_frozen)))
}

/// The argument that names weights to begin with: of an engine among others, or of the only run.
fn init(engine: Option<&str>) -> String {
    engine.map_or_else(|| "--init DIR".to_owned(), |engine| format!("--init {engine}=DIR"))
}
