//! The tasks of a master file.

use std::path::Path;

use pipezero_files::json::{Entry, Node, Span, Value, join, nearest};
use pipezero_models::Distillation;

use super::engine::EngineEntry;
use super::ranks::{self, WrittenRange, WrittenRanks};
use super::reader::Reader;
use super::task::{Task, TaskKind, WrittenInit};
use crate::error::Problem;
use crate::place::Place;
use crate::several::{INIT, KEYS_OF_DISTILL, KEYS_OF_TASK, KINDS, MasterProblem, NameOf, RANKS};

/// All tasks; `None` where it cannot be said which there are.
pub(super) fn tasks(
    reader: &mut Reader,
    entry: &Entry,
    engines: Option<&[EngineEntry]>,
    folder: &Path,
) -> Option<Vec<Task>> {
    let entries = reader.named(entry, NameOf::Task)?;
    let mut tasks = Vec::new();
    for Entry { key, key_span, node } in entries {
        let place = Place { path: join(&entry.key, key), span: key_span.clone() };
        let read = TaskReader { reader: &mut *reader, engines, folder };
        tasks.extend(read.task(key, place, node));
    }
    Some(tasks)
}

/// Reads one task.
struct TaskReader<'a> {
    reader: &'a mut Reader,
    /// `None` where it is not known which there are.
    engines: Option<&'a [EngineEntry]>,
    /// At which paths start.
    folder: &'a Path,
}

/// A name with its place.
type Named = (String, Place);

impl TaskReader<'_> {
    fn task(mut self, name: &str, place: Place, node: &Node) -> Option<Task> {
        let path = place.path.as_str();
        let Value::Object(entries) = &node.value else {
            self.reader.wrong_type(path, node, "an object", r#"write {"train": ["ENGINE", ...]}"#);
            return None;
        };
        let num_before = self.reader.errors.len();
        let is_kind = |entry: &&Entry| KINDS.contains(&entry.key.as_str());
        let mut kinds = entries.iter().filter(is_kind);
        let first = kinds.next();
        for other in kinds {
            let first = first.map_or((0, 0), |first| first.key_span.line_column());
            let path = join(path, &other.key);
            self.reader.master_error(&path, &other.key_span, MasterProblem::TwoKinds { first });
        }
        let unknown = entries.iter().filter(|entry| !KEYS_OF_TASK.contains(&entry.key.as_str()));
        let mut num_unknown = 0;
        for entry in unknown {
            num_unknown += 1;
            let nearest = nearest(&entry.key, KEYS_OF_TASK.into_iter()).map(str::to_owned);
            let path = join(path, &entry.key);
            self.reader.master_error(&path, &entry.key_span, MasterProblem::UnknownKeyOfTask { nearest });
        }
        let Some(Entry { key, node: of_kind, .. }) = first else {
            if num_unknown == 0 {
                self.reader.master_error(path, &node.span, MasterProblem::NoKind);
            }
            return None;
        };
        let of_kind_at = join(path, key);
        let (kind, engines) = match key == KINDS[0] {
            true => {
                let names = self.names(&of_kind_at, of_kind)?;
                (TaskKind::Train(names.iter().map(|(name, _)| name.clone()).collect()), names)
            }
            false => self.distill(&of_kind_at, of_kind)?,
        };
        // With a mistake in a name it is not known whose weights are meant.
        let known = (self.reader.errors.len() == num_before).then_some(engines.as_slice());
        let init = entries.iter().find(|entry| entry.key == INIT);
        let inits =
            init.map_or(Some(Vec::new()), |entry| self.inits(&join(path, &entry.key), entry, known))?;
        let ranks = entries.iter().find(|entry| entry.key == RANKS);
        let ranks = match ranks {
            Some(entry) => Some(self.ranks(&join(path, &entry.key), entry, known)?),
            None => None,
        };
        Some(Task { name: name.to_owned(), kind, place, engines, inits, ranks })
    }

    /// A list of engines that are there, each once.
    fn names(&mut self, path: &str, node: &Node) -> Option<Vec<Named>> {
        let Value::Array(elements) = &node.value else {
            self.reader.wrong_type(path, node, "a list of engines", r#"write ["ENGINE", ...]"#);
            return None;
        };
        if elements.is_empty() {
            self.reader.master_error(path, &node.span, MasterProblem::Empty { of: NameOf::Engine });
        }
        let beside: Vec<&Node> = elements.iter().collect();
        let mut names: Vec<Named> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let path = join(path, &format!("[{index}]"));
            let Some((name, place)) = self.name(&path, element, &beside) else { continue };
            self.check_new(&name, &place, &names);
            names.push((name, place));
        }
        Some(names)
    }

    /// The name of an engine, which may be unknown; `beside` are the names that stand beside it, of other engines.
    fn name(&mut self, path: &str, node: &Node, beside: &[&Node]) -> Option<Named> {
        let Value::String(name) = &node.value else {
            self.reader.wrong_type(path, node, "the name of an engine", "write it in quotes");
            return None;
        };
        if let Some(problem) = unknown(name, self.engines, beside) {
            self.reader.master_error(path, &node.span, problem);
        }
        Some((name.clone(), Place { path: path.to_owned(), span: node.span.clone() }))
    }

    /// Reports a name that is among those before it.
    fn check_new(&mut self, name: &str, place: &Place, names: &[Named]) {
        if let Some((_, first)) = names.iter().find(|(known, _)| known == name) {
            let first = first.span.line_column();
            let problem = MasterProblem::EngineTwice { name: name.to_owned(), first };
            self.reader.master_error(&place.path, &place.span, problem);
        }
    }

    fn distill(&mut self, path: &str, node: &Node) -> Option<(TaskKind, Vec<Named>)> {
        let Value::Object(entries) = &node.value else {
            let repair =
                r#"write {"student": "ENGINE", "teacher": "ENGINE", "temperature": 2, "alpha": 0.5}"#;
            self.reader.wrong_type(path, node, "an object", repair);
            return None;
        };
        for Entry { key, key_span, .. } in entries {
            if !KEYS_OF_DISTILL.contains(&key.as_str()) {
                let nearest = nearest(key, KEYS_OF_DISTILL.into_iter()).map(str::to_owned);
                let problem = MasterProblem::UnknownKeyOfDistill { nearest };
                self.reader.master_error(&join(path, key), key_span, problem);
            }
        }
        let find = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
        let [student, teacher, temperature, alpha] = KEYS_OF_DISTILL.map(|key| (join(path, key), find(key)));
        let begin = &node.span;
        let beside: Vec<&Node> = [student.1, teacher.1].into_iter().flatten().collect();
        let student = self.part(student, begin, "it says which engine is trained", &beside);
        let rule = "it says which engine's logits the student learns from";
        let teacher = self.part(teacher, begin, rule, &beside);
        if let (Some(student), Some((name, place))) = (&student, &teacher) {
            self.check_new(name, place, std::slice::from_ref(student));
        }
        let temperature = self.number(
            temperature,
            begin,
            // Beyond, the two distributions are too alike for their divergence to be told in f32.
            |value| (1e-3..=20.0).contains(&value),
            ("it divides logits, and is from 0.001 to 20", "such as 2"),
        );
        let alpha = self.number(
            alpha,
            begin,
            |value| (0.0..=1.0).contains(&value),
            ("it is what the divergence from the teacher weighs, from 0 to 1", "such as 0.5"),
        );
        let (student, teacher) = (student?, teacher?);
        let distillation = Distillation { temperature: temperature?, alpha: alpha? };
        let kind = TaskKind::Distill { student: student.0.clone(), teacher: teacher.0.clone(), distillation };
        Some((kind, vec![student, teacher]))
    }

    /// The engine that a key names.
    fn part(
        &mut self,
        (path, node): (String, Option<&Node>),
        begin: &Span,
        rule: &str,
        beside: &[&Node],
    ) -> Option<Named> {
        match node {
            Some(node) => self.name(&path, node, beside),
            None => self.reader.missing(&path, begin, rule, "add the name of an engine"),
        }
    }

    /// The number of a key, if it keeps to a rule.
    fn number(
        &mut self,
        (path, node): (String, Option<&Node>),
        begin: &Span,
        holds: impl Fn(f64) -> bool,
        (rule, example): (&str, &str),
    ) -> Option<f64> {
        let Some(node) = node else {
            return self.reader.missing(&path, begin, rule, &format!("add a number, {example}"));
        };
        let Some(value) = node.number().and_then(|number| number.parse::<f64>().ok()) else {
            self.reader.wrong_type(&path, node, "a number", &format!("write one, {example}"));
            return None;
        };
        if holds(value) {
            return Some(value);
        }
        let (rule, repair) = (rule.to_owned(), format!("use a value {example}"));
        self.reader.error(&path, &node.span, Problem::Rule { value: node.describe(), rule, repair });
        None
    }

    /// The weights with which engines of the task begin; `None` where it is not known which these are.
    fn inits(&mut self, path: &str, entry: &Entry, engines: Option<&[Named]>) -> Option<Vec<WrittenInit>> {
        let Value::Object(entries) = &entry.node.value else {
            self.reader.wrong_type(
                path,
                &entry.node,
                "an object",
                r#"write {"ENGINE": "its-run-directory", ...}"#,
            );
            return None;
        };
        let mut inits = Vec::new();
        for Entry { key, key_span, node } in entries {
            let path = join(path, key);
            self.check_in_task(key, &path, key_span, engines);
            match &node.value {
                Value::String(named) if !named.is_empty() => {
                    let place = Place { path, span: node.span.clone() };
                    inits.push(WrittenInit { engine: key.clone(), path: self.folder.join(named), place });
                }
                _ => {
                    let repair = "write the path of a run directory, of its weights, or of a folder of transformers, in quotes";
                    self.reader.wrong_type(&path, node, "a path", repair);
                }
            }
        }
        Some(inits)
    }

    /// The ranks that engines of the task have.
    fn ranks(&mut self, path: &str, entry: &Entry, engines: Option<&[Named]>) -> Option<WrittenRanks> {
        let Value::Object(entries) = &entry.node.value else {
            self.reader.wrong_type(path, &entry.node, "an object", r#"write {"ENGINE": "0-3", ...}"#);
            return None;
        };
        if entries.is_empty() {
            self.reader.master_error(path, &entry.node.span, MasterProblem::Empty { of: NameOf::Engine });
        }
        let mut of_engines = Vec::new();
        for Entry { key, key_span, node } in entries {
            let path = join(path, key);
            self.check_in_task(key, &path, key_span, engines);
            let Value::String(text) = &node.value else {
                let repair = "write them in quotes, such as \"0-3\", or \"4\" of one";
                self.reader.wrong_type(&path, node, "ranks", repair);
                continue;
            };
            match ranks::parse(text) {
                Ok(ranks) => {
                    let place = Place { path, span: node.span.clone() };
                    of_engines.push(WrittenRange { engine: key.clone(), ranks, place });
                }
                Err(fault) => {
                    let (rule, repair) = (fault.rule(), fault.repair());
                    let problem = Problem::Rule { value: node.describe(), rule, repair };
                    self.reader.error(&path, &node.span, problem);
                }
            }
        }
        let place = Place { path: path.to_owned(), span: entry.key_span.clone() };
        Some(WrittenRanks { place, of_engines })
    }

    /// Reports a key that names no engine of the task; none is where it is not known which these are.
    fn check_in_task(&mut self, name: &str, path: &str, span: &Span, engines: Option<&[Named]>) {
        let Some(engines) = engines.filter(|all| !all.iter().any(|(known, _)| known == name)) else { return };
        let known: Vec<String> = engines.iter().map(|(known, _)| known.clone()).collect();
        let nearest = nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
        self.reader.master_error(
            path,
            span,
            MasterProblem::NotInTask { name: name.to_owned(), known, nearest },
        );
    }
}

/// The mistake that no engine has this name; none where it is not known which there are. What is named beside it is not meant.
fn unknown(name: &str, engines: Option<&[EngineEntry]>, beside: &[&Node]) -> Option<MasterProblem> {
    let known: Vec<String> = engines?.iter().map(|engine| engine.name.clone()).collect();
    if known.iter().any(|known| known == name) {
        return None;
    }
    let is_free =
        |known: &&str| !beside.iter().any(|of| matches!(&of.value, Value::String(named) if named == known));
    let nearest = nearest(name, known.iter().map(String::as_str).filter(is_free)).map(str::to_owned);
    Some(MasterProblem::UnknownEngine { name: name.to_owned(), known, nearest })
}
