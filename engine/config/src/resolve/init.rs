//! `init`.

use std::path::Path;

use crate::raw::RawInit;
use crate::resolved::InitConfig;

pub(super) fn resolve(raw: &RawInit, folder: &Path) -> Option<InitConfig> {
    let from = raw.from.or(String::new())?;
    if raw.from.is_written() && from.is_empty() {
        return raw.from.broken(
            "\"\"",
            "it names nothing",
            "name a folder or a file with weights, or remove the key",
        );
    }
    let from = (!from.is_empty()).then(|| folder.join(from));
    Some(InitConfig { from, new: raw.new.or(Vec::new())? })
}
