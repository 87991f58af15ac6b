//! The keys of a run file whose values are paths.

use std::path::Path;

use pipezero_files::json::{Node, Value};

/// Paths that become absolute in the run file of a run directory, since texts, tokens and weights stay where they are.
pub(crate) const ABSOLUTE_IN_RECORDS: [&str; 4] =
    ["data.text", "data.tokens", "data.validation_tokens", "init.from"];

/// All other paths. A run directory keeps copies of these files, or their contents.
const OTHERS: [&str; 3] = ["data.tokenizer", "model.from", "parallel.schedule.file"];

/// Lets relative paths of a file start at a folder from which `way` leads to its own.
pub(super) fn start_at(root: &mut Node, way: &Path) {
    if way.as_os_str().is_empty() {
        return;
    }
    for key in ABSOLUTE_IN_RECORDS.into_iter().chain(OTHERS) {
        if let Some(node) = key.split('.').try_fold(&mut *root, below) {
            prepend(node, way);
        }
    }
}

fn below<'a>(node: &'a mut Node, key: &str) -> Option<&'a mut Node> {
    let Value::Object(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
}

/// An empty path stays one: it is a mistake that is told later.
fn prepend(node: &mut Node, way: &Path) {
    match &mut node.value {
        Value::String(path) if !path.is_empty() => *path = way.join(&*path).display().to_string(),
        Value::Array(paths) => paths.iter_mut().for_each(|path| prepend(path, way)),
        _ => {}
    }
}
