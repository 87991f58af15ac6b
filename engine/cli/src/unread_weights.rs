//! The hint that a folder of `model.from` has weights, which only `--init` reads.

use pipezero_config::hugging_face::PublishedWeights;
use pipezero_config::{Notice, NoticeKind, RunFile};

use super::unused_parts::shown;

/// A hint where the folder from which a run takes its sizes has weights too.
pub(super) fn unread_weights(file: &RunFile) -> Option<Notice> {
    let folder = file.model_folder().filter(|folder| PublishedWeights::are_in(folder))?;
    if file.initial_weights().is_some() {
        return None;
    }
    let named = shown(&folder);
    let hint = format!(
        "{named} has weights too: `train --init {named}`, or `\"init\": {{\"from\": ...}}` in the file, starts with them"
    );
    Some(Notice::new(NoticeKind::Hint, &file.place(&["model.from"]), hint))
}
