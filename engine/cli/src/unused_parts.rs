//! Hints on what a folder of transformers holds and the run does not use.

use std::path::Path;

use pipezero_config::hugging_face::{PublishedModel, PublishedWeights, Unused};
use pipezero_config::{Notice, NoticeKind, RunFile};
use pipezero_plan::Plan;
use pipezero_train::Training;

/// A hint on fields of config.json in each folder that the run reads, and one on tensors and files beside the weights it begins with. Where no weights are named,
/// those of the folder from which the model takes its sizes are looked at, as `--init` would read them.
pub(super) fn unused_parts(plan: &Plan, file: &RunFile, init: Option<&Path>) -> Vec<Notice> {
    let sizes = file.model_folder();
    let place = file.place(&["model.from", "model"]);
    let mut notices = Vec::new();
    let mut say = |text: String| notices.push(Notice::new(NoticeKind::Hint, &place, text));
    let init = init.filter(|path| path.join(PublishedModel::FILE).is_file());
    let is_same = |path: &Path| init.is_some_and(|init| init.canonicalize().ok() == path.canonicalize().ok());
    for folder in sizes.as_deref().filter(|path| !is_same(path)).into_iter().chain(init) {
        let fields = PublishedModel::unused_fields(folder);
        if !fields.is_empty() {
            let path = shown(&folder.join(PublishedModel::FILE));
            say(format!("{path}: fields that training does not use: {}", listed(&fields)));
        }
    }
    let weights = init.or(sizes.as_deref()).filter(|folder| PublishedWeights::are_in(folder));
    let Some(folder) = weights else { return notices };
    match Training::check_initial_weights(plan, folder) {
        Ok(unused) if unused.is_empty() => {}
        Ok(unused) => say(format!("{}: not read: {}", shown(folder), listed(&unused))),
        // With --init it ends the run, and is said there.
        Err(error) if init.is_none() => {
            say(format!("`train --init {}` would be refused: {error}", shown(folder)))
        }
        Err(_) => {}
    }
    notices
}

pub(super) fn listed(unused: &[Unused]) -> String {
    let texts: Vec<String> = unused.iter().map(Unused::to_string).collect();
    texts.join("; ")
}

/// A path as it is named from here.
pub(super) fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let named = here.and_then(|here| path.strip_prefix(here).ok());
    named.filter(|named| !named.as_os_str().is_empty()).unwrap_or(path).display().to_string()
}
