//! Errors about a size of the model: at its key, or at `model.from` where the folder says it.

use pipezero_files::json::shorten;

use crate::raw::RawModel;
use crate::section::Field;

/// What to do about a size.
pub(super) struct Repairs<'a> {
    /// Where the file has it.
    pub(super) of_key: &'a str,
    /// Where a folder has it.
    pub(super) of_folder: &'a str,
}

/// Reports that a size, which is `value`, breaks `rule`.
pub(super) fn broken<T>(
    model: &RawModel,
    field: &Field<usize>,
    value: usize,
    rule: String,
    repairs: Repairs<'_>,
) -> Option<T> {
    match model.from.given() {
        Some(folder) if !field.is_written() => {
            let path = &field.site.place.path;
            let name = path.rsplit('.').next().unwrap_or(path);
            let rule = format!("its model has `{name}` {value}: {rule}");
            model.from.broken(format!("\"{}\"", shorten(&folder)), rule, repairs.of_folder)
        }
        _ => field.broken(value, rule, repairs.of_key),
    }
}
