//! From the JSON of a master file to its engines and tasks, every mistake at its place.

use std::path::{Path, PathBuf};

use pipezero_files::input::is_stdio;
use pipezero_files::json::{Entry, Node, Span, Value, join, nearest};

use super::engine::{EngineEntry, EngineSource};
use super::read_task;
use super::reader::Reader;
use super::task::Task;
use crate::error::ConfigErrors;
use crate::several::{KEYS, MasterProblem, NameOf};

/// Engines and tasks.
type Parts = (Vec<EngineEntry>, Vec<Task>);

/// Reads a whole master file, an object.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn read(root: &Node, folder: &Path) -> Result<Parts, ConfigErrors> {
    let mut reader = Reader { errors: Vec::new() };
    let entries = match &root.value {
        Value::Object(entries) => entries.as_slice(),
        _ => &[],
    };
    for entry in entries {
        // As in run files: comments, and what editors read.
        let is_comment = entry.key.starts_with('_') || entry.key == "$schema";
        if !is_comment && !KEYS.contains(&entry.key.as_str()) {
            let nearest = nearest(&entry.key, KEYS.into_iter()).map(str::to_owned);
            reader.master_error(&entry.key, &entry.key_span, MasterProblem::UnknownKey { nearest });
        }
    }
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    let begin = Span { end: (root.span.start + 1).min(root.span.end), ..root.span.clone() };
    let engines = match find(KEYS[0]) {
        Some(entry) => engines_of(&mut reader, entry),
        None => reader.missing(
            KEYS[0],
            &begin,
            "it says which models there are",
            r#"add "engines": {"NAME": "its-run-file.json", ...}"#,
        ),
    };
    let tasks = match find(KEYS[1]) {
        Some(entry) => read_task::tasks(&mut reader, entry, engines.as_deref(), folder),
        None => reader.missing(
            KEYS[1],
            &begin,
            "it says which engines train together",
            r#"add "tasks": {"NAME": {"train": ["ENGINE", ...]}}"#,
        ),
    };
    match (engines, tasks) {
        (Some(engines), Some(tasks)) if reader.errors.is_empty() => Ok((engines, tasks)),
        _ => Err(ConfigErrors::of_master(reader.errors)),
    }
}

/// The engines; `None` where it cannot be said which there are.
fn engines_of(reader: &mut Reader, entry: &Entry) -> Option<Vec<EngineEntry>> {
    let entries = reader.named(entry, NameOf::Engine)?;
    let mut engines = Vec::new();
    for Entry { key, node, .. } in entries {
        let path = join(&entry.key, key);
        let at = match &node.value {
            Value::Object(_) => EngineSource::Inline(node.clone()),
            Value::String(named) => {
                let named = PathBuf::from(named);
                if is_stdio(&named) {
                    reader.master_error(&path, &node.span, MasterProblem::Stdin);
                }
                EngineSource::File { path: named, span: node.span.clone() }
            }
            _ => {
                let repair = "write the path of a run file, in quotes, or a run file itself, in braces";
                reader.wrong_type(&path, node, "a path or an object", repair);
                // Its name is known all the same.
                EngineSource::Inline(node.clone())
            }
        };
        engines.push(EngineEntry { name: key.clone(), at, arguments: Vec::new() });
    }
    Some(engines)
}
