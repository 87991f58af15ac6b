//! From the JSON of a master file to its engines and tasks, every mistake at its place.

use std::path::PathBuf;

use super::engine::{EngineEntry, EngineSource};
use super::task::{Task, TaskKind};
use crate::config::error::{ConfigError, ConfigErrors, Problem};
use crate::config::place::Place;
use crate::config::several::{KEYS, KINDS, MasterProblem, NameOf, is_name};
use crate::files::input::is_stdio;
use crate::files::json::{Entry, Node, Span, Value, join, nearest};

/// Engines and tasks.
type Parts = (Vec<EngineEntry>, Vec<Task>);

/// Reads a whole master file, an object.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn read(root: &Node) -> Result<Parts, ConfigErrors> {
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
        Some(entry) => reader.engines(entry),
        None => reader.missing(
            KEYS[0],
            &begin,
            "it says which models there are",
            r#"add "engines": {"NAME": "its-run-file.json", ...}"#,
        ),
    };
    let tasks = match find(KEYS[1]) {
        Some(entry) => reader.tasks(entry, engines.as_deref()),
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

/// Collects what is wrong.
struct Reader {
    errors: Vec<ConfigError>,
}

impl Reader {
    fn error(&mut self, path: &str, span: &Span, problem: Problem) {
        let place = Place { path: path.to_owned(), span: span.clone() };
        self.errors.push(ConfigError::new(place, problem));
    }

    fn master_error(&mut self, path: &str, span: &Span, problem: MasterProblem) {
        self.error(path, span, Problem::Master(problem));
    }

    fn missing<T>(&mut self, key: &str, span: &Span, rule: &str, repair: &str) -> Option<T> {
        let (rule, repair) = (rule.to_owned(), repair.to_owned());
        self.error(key, span, Problem::Missing { rule, repair });
        None
    }

    fn wrong_type(&mut self, path: &str, node: &Node, expected: &str, repair: &str) {
        let (expected, repair) = (expected.to_owned(), repair.to_owned());
        let problem = Problem::WrongType { expected, found: node.describe(), repair, replacement: None };
        self.error(path, &node.span, problem);
    }

    /// The entries of an object that names engines or tasks, with names that can be used.
    fn named<'a>(&mut self, entry: &'a Entry, of: NameOf) -> Option<Vec<&'a Entry>> {
        let Value::Object(entries) = &entry.node.value else {
            let repair = match of {
                NameOf::Engine => r#"write {"NAME": "its-run-file.json", ...}"#,
                NameOf::Task => r#"write {"NAME": {"train": ["ENGINE", ...]}}"#,
            };
            self.wrong_type(&entry.key, &entry.node, "an object", repair);
            return None;
        };
        if entries.is_empty() {
            self.master_error(&entry.key, &entry.node.span, MasterProblem::Empty { of });
        }
        for inner in entries.iter().filter(|inner| !is_name(&inner.key)) {
            let path = join(&entry.key, &inner.key);
            self.master_error(&path, &inner.key_span, MasterProblem::BadName { of });
        }
        Some(entries.iter().collect())
    }

    /// The engines; `None` where it cannot be said which there are.
    fn engines(&mut self, entry: &Entry) -> Option<Vec<EngineEntry>> {
        let entries = self.named(entry, NameOf::Engine)?;
        let mut engines = Vec::new();
        for Entry { key, node, .. } in entries {
            let path = join(&entry.key, key);
            let at = match &node.value {
                Value::Object(_) => EngineSource::Inline(node.clone()),
                Value::String(named) => {
                    let named = PathBuf::from(named);
                    if is_stdio(&named) {
                        self.master_error(&path, &node.span, MasterProblem::Stdin);
                    }
                    EngineSource::File { path: named, span: node.span.clone() }
                }
                _ => {
                    let repair = "write the path of a run file, in quotes, or a run file itself, in braces";
                    self.wrong_type(&path, node, "a path or an object", repair);
                    // Its name is known all the same.
                    EngineSource::Inline(node.clone())
                }
            };
            engines.push(EngineEntry { name: key.clone(), at, arguments: Vec::new() });
        }
        Some(engines)
    }

    fn tasks(&mut self, entry: &Entry, engines: Option<&[EngineEntry]>) -> Option<Vec<Task>> {
        let entries = self.named(entry, NameOf::Task)?;
        let mut tasks = Vec::new();
        for Entry { key, node, .. } in entries {
            let path = join(&entry.key, key);
            let kind = self.kind(&path, node, engines);
            tasks.extend(kind.map(|kind| Task { name: key.clone(), kind }));
        }
        Some(tasks)
    }

    fn kind(&mut self, path: &str, node: &Node, engines: Option<&[EngineEntry]>) -> Option<TaskKind> {
        let Value::Object(kinds) = &node.value else {
            self.wrong_type(path, node, "an object", r#"write {"train": ["ENGINE", ...]}"#);
            return None;
        };
        if kinds.is_empty() {
            self.master_error(path, &node.span, MasterProblem::NoKind);
        }
        let mut found = None;
        for Entry { key, key_span, node } in kinds {
            let path = join(path, key);
            if key == KINDS[0] {
                found = self.names(&path, node, engines).map(TaskKind::Train);
                continue;
            }
            let nearest = nearest(key, KINDS.into_iter()).map(str::to_owned);
            self.master_error(&path, key_span, MasterProblem::UnknownKind { nearest });
        }
        found
    }

    /// A list of engines that are there, each once.
    fn names(&mut self, path: &str, node: &Node, engines: Option<&[EngineEntry]>) -> Option<Vec<String>> {
        let Value::Array(elements) = &node.value else {
            self.wrong_type(path, node, "a list of engines", r#"write ["ENGINE", ...]"#);
            return None;
        };
        if elements.is_empty() {
            self.master_error(path, &node.span, MasterProblem::Empty { of: NameOf::Engine });
        }
        let mut names: Vec<(String, &Span)> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let path = join(path, &format!("[{index}]"));
            let Value::String(name) = &element.value else {
                self.wrong_type(&path, element, "the name of an engine", "write it in quotes");
                continue;
            };
            if let Some((_, first)) = names.iter().find(|(known, _)| known == name) {
                let problem = MasterProblem::EngineTwice { name: name.clone(), first: first.line_column() };
                self.master_error(&path, &element.span, problem);
            }
            if let Some(problem) = unknown(name, engines) {
                self.master_error(&path, &element.span, problem);
            }
            names.push((name.clone(), &element.span));
        }
        Some(names.into_iter().map(|(name, _)| name).collect())
    }
}

/// The mistake that no engine has this name; none where it is not known which there are.
fn unknown(name: &str, engines: Option<&[EngineEntry]>) -> Option<MasterProblem> {
    let known: Vec<String> = engines?.iter().map(|engine| engine.name.clone()).collect();
    if known.iter().any(|known| known == name) {
        return None;
    }
    let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
    Some(MasterProblem::UnknownEngine { name: name.to_owned(), known, nearest })
}
