//! The hint that a folder of `model.from` has weights, which only `--init` reads.

use std::env::current_dir;

use pipezero_config::hugging_face::PublishedWeights;
use pipezero_config::{Notice, NoticeKind, RunFile};

/// A hint where the folder from which a run takes its sizes has weights too.
pub(super) fn unread_weights(file: &RunFile) -> Option<Notice> {
    let folder = file.model_folder().filter(|folder| PublishedWeights::are_in(folder))?;
    // As it is named from here.
    let here = current_dir().ok();
    let named = here.and_then(|here| folder.strip_prefix(here).ok());
    let named = named.filter(|named| !named.as_os_str().is_empty()).unwrap_or(&folder).display();
    let hint = format!("{named} has weights too: `train --init {named}` starts with them");
    Some(Notice::new(NoticeKind::Hint, &file.place(&["model.from"]), hint))
}
