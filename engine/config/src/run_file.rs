//! The run file from the disk to a resolved run.

use std::path::{Path, PathBuf};

use pipezero_files::host::LaunchedProcess;
use pipezero_files::input::{is_stdio, named, read_stdin, read_text};
use pipezero_files::json::{Node, Span, Value};

use super::aliases;
use super::data_path::DataPath;
use super::error::{ConfigError, ConfigErrors, Problem};
use super::extends::{Extended, extended};
use super::findings::{Findings, MANY_ERRORS};
use super::notice::{Notice, NoticeKind};
use super::other_forms::is_list_of_files;
use super::place::Place;
use super::raw::RawRun;
use super::resolve::{self, Role};
use super::resolved::{ModelConfig, Run};
use super::resources::Resources;
use super::run_text::{MAX_BYTES, parse_text, unreadable};
use super::section::{Object, Section};
use super::set;
use super::several::{MasterProblem, key_of_master};
use super::student_run::StudentRun;
use crate::model_sizes::sizes;

/// Of the first comment or comma behind a last part.
const RELAXED: &str = "comments, and commas behind a last part, are read over, as DeepSpeed does; other readers of JSON refuse them";

/// Says what is wrong with a file that the data names.
type Fault<'a> = &'a dyn Fn(DataPath<'_>) -> Option<String>;

/// A run file that is well-formed JSON; what it says is checked when it is resolved.
#[derive(Clone, Debug)]
pub struct RunFile {
    pub(super) root: Node,
    pub(super) folder: PathBuf,
    /// The `--set` arguments that changed it.
    pub(super) arguments: Vec<String>,
    /// Sequences in a step of the run that is resumed with it.
    pub(super) kept_batch: Option<usize>,
    /// Whether it extends another file.
    pub(super) has_base: bool,
}

impl RunFile {
    /// Reads the file at `path`, or stdin where that is `-`, and the files that it extends. Relative paths in it start at its folder, those in stdin at the
    /// current one.
    ///
    /// Errors: the file cannot be read, is not a regular file, is larger than any run file, is not UTF-8 or not JSON, or
    /// holds a key twice; likewise the files that it extends.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let (name, text, folder) = Self::read(path)?;
        Self::of_text(&name, &text, folder)
    }

    /// The name by which messages know a file, its text, and the folder at which relative paths in it start.
    pub(super) fn read(path: &Path) -> Result<(String, String, PathBuf), ConfigErrors> {
        let name = named(path).display().to_string();
        let of_many = LaunchedProcess::this().ok().flatten().is_some_and(|launched| launched.size > 1);
        if is_stdio(path) && of_many {
            let reason = "a launcher gives its input to one of its processes, and each of them reads the run file: name a file";
            return Err(unreadable(&name, reason));
        }
        let read = if is_stdio(path) { read_stdin(MAX_BYTES) } else { read_text(path, MAX_BYTES) };
        let text = read.map_err(|error| match is_list_of_files(path).filter(|_| error.is_missing()) {
            Some(several) => unreadable(&name, &several),
            None => unreadable(&name, &error.to_string()),
        })?;
        let path = std::path::absolute(path).map_err(|error| unreadable(&name, &error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok((name, text, folder))
    }

    pub(super) fn of_text(name: &str, text: &str, folder: PathBuf) -> Result<Self, ConfigErrors> {
        let root = parse_text(name, text)?;
        if let Some(entry) = key_of_master(&root) {
            let place = Place { path: entry.key.clone(), span: entry.key_span.clone() };
            let problem = Problem::Master(MasterProblem::InsteadOfRunFile);
            return Err(ConfigErrors::new(vec![ConfigError::new(place, problem)]));
        }
        Self::of_node(root, folder)
    }

    /// A part of a text, or all of it, as a run file, merged with the files that it extends.
    pub(super) fn of_node(root: Node, folder: PathBuf) -> Result<Self, ConfigErrors> {
        let Extended { root, has_base } = extended(root, &folder)?;
        Ok(Self { root, folder, arguments: Vec::new(), kept_batch: None, has_base })
    }

    /// Reads `text` as a run file that messages call `name`, and the files that it extends. Relative paths in it start at the current folder.
    ///
    /// Errors: the text is not JSON, or holds a key twice; as [`RunFile::load`] for the files that it extends.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        Self::of_text(name, text, PathBuf::new())
    }

    /// Overrides keys: each argument is `key.path=value`, the value JSON or else a string. Missing sections are created;
    /// of two arguments for one key the later wins; `null` takes a key away.
    ///
    /// Errors: an argument has no `=`, an empty key, or a path through a value that is not a section.
    pub fn set(self, arguments: &[String]) -> Result<Self, ConfigErrors> {
        self.set_below("", arguments)
    }

    /// As [`RunFile::set`], of arguments that all begin with `prefix`, which leads to this run file.
    pub(super) fn set_below(mut self, prefix: &str, arguments: &[String]) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        for argument in arguments {
            if let Err(error) = set::apply(&mut self.root, argument, prefix.len()) {
                errors.push(*error);
            }
        }
        self.arguments.extend_from_slice(arguments);
        if errors.is_empty() { Ok(self) } else { Err(ConfigErrors::new(errors)) }
    }

    /// Checks every rule and fills in every default.
    ///
    /// Errors: everything that is wrong with the file, at once.
    pub fn resolve(&self, resources: Resources) -> Result<(Run, Vec<Notice>), ConfigErrors> {
        self.resolve_as(resources, None, Role::Trains)
    }

    /// As [`RunFile::resolve`], and calls `fault` with every file that `data` names, for what is wrong with it. `resolve` does not check that
    /// they exist, since they may be added before they are read.
    ///
    /// Errors: those of [`RunFile::resolve`], and every file with a fault.
    pub fn resolve_with(
        &self,
        resources: Resources,
        fault: &dyn Fn(DataPath<'_>) -> Option<String>,
    ) -> Result<(Run, Vec<Notice>), ConfigErrors> {
        self.resolve_as(resources, Some(fault), Role::Trains)
    }

    /// As [`RunFile::resolve`], for an engine that evaluates or generates: rules of gradients and of an optimizer do not hold for it.
    ///
    /// # Errors
    /// As those of [`RunFile::resolve`].
    pub fn resolve_without_training(&self, resources: Resources) -> Result<(Run, Vec<Notice>), ConfigErrors> {
        self.resolve_as(resources, None, Role::Infers)
    }

    /// As [`RunFile::resolve`], for an engine that computes logits for a student. Its data, batches and steps are those of the student's
    /// run; what this file says about them, or about learning, has no effect.
    ///
    /// # Errors
    /// As those of [`RunFile::resolve`]; when the batches cannot be shared out to its ranks.
    pub fn resolve_for_inference(
        &self,
        resources: Resources,
        student: StudentRun<'_>,
    ) -> Result<(Run, Vec<Notice>), ConfigErrors> {
        self.resolve_as(resources, None, Role::Teaches(student))
    }

    fn resolve_as(
        &self,
        resources: Resources,
        fault: Option<Fault<'_>>,
        role: Role<'_>,
    ) -> Result<(Run, Vec<Notice>), ConfigErrors> {
        let findings = Findings::default();
        let root = aliases::with_usual_names(&self.root, &findings);
        let raw = RawRun::read(&Object::root(&root, &findings));
        let run = resolve::resolve(&raw, &self.folder, resources, self.kept_batch, role);
        if let Some(fault) = fault {
            resolve::check_data(&raw, &self.folder, fault);
        }
        let (mut errors, mut notices) = (findings.errors.take(), findings.notices.take());
        errors.retain(|error| !resolve::is_of_unknown_type(&raw, error.path()));
        if !errors.is_empty() {
            let keys = RawRun::spec();
            let find = |section: &str, name: &str| keys.key_elsewhere(section, name);
            let has = |path: &str| root.find(path).map(|node| node.span.clone());
            errors.iter_mut().take(MANY_ERRORS).for_each(|error| error.look_elsewhere(find, has));
            let renamed: Vec<String> =
                errors.iter().filter_map(ConfigError::usual_key).map(str::to_owned).collect();
            errors.retain(|error| !(error.is_missing() && renamed.iter().any(|key| key == error.path())));
        }
        notices.extend(self.root.span.source.relaxed_at().map(|span| {
            let place = Place { path: String::new(), span };
            Notice::new(NoticeKind::Hint, &place, RELAXED.to_owned())
        }));
        match run {
            Some(run) if errors.is_empty() => {
                notices.sort_by(|one, other| one.order().cmp(&other.order()));
                // A value that is needed twice is told twice.
                notices.dedup();
                Ok((run, notices))
            }
            run => Err(ConfigErrors::new(errors).of(run).after_set(&self.arguments)),
        }
    }

    /// Whether it leaves to the host what computes.
    pub fn leaves_device_open(&self) -> bool {
        self.root.find("device").is_none_or(is_auto)
    }

    /// Whether it leaves to the device whether it computes in bf16.
    pub fn leaves_bf16_open(&self) -> bool {
        self.root.find("bf16.enabled").is_some_and(is_auto)
    }

    /// The section of its model with the sizes themselves, where it takes them from a folder.
    pub fn model_in_full(&self, model: &ModelConfig) -> Option<String> {
        self.root.find("model.from")?;
        let mut section = sizes(model);
        section.insert("family".to_owned(), model.facts().family.into());
        Some(serde_json::Value::Object(section).to_string())
    }

    /// The folder from which it takes its model, if it does.
    pub fn model_folder(&self) -> Option<PathBuf> {
        self.path_at("model.from")
    }

    /// The weights that it names for the run to begin with.
    pub fn initial_weights(&self) -> Option<PathBuf> {
        self.path_at("init.from")
    }

    fn path_at(&self, key: &str) -> Option<PathBuf> {
        match &self.root.find(key)?.value {
            Value::String(named) => Some(self.folder.join(named)),
            _ => None,
        }
    }

    /// Whether a key is written.
    pub fn has(&self, key: &str) -> bool {
        self.root.find(key).is_some()
    }

    /// One thing that is wrong with the first of these keys that is written.
    pub fn error_at(&self, keys: &[&str], problem: Problem) -> ConfigErrors {
        ConfigErrors::new(vec![ConfigError::new(self.place(keys), problem)]).after_set(&self.arguments)
    }

    /// What is wrong with elements of a list, by their numbers.
    pub fn errors_at_elements(
        &self,
        key: &str,
        problems: impl Iterator<Item = (usize, Problem)>,
    ) -> ConfigErrors {
        let list = match self.root.find(key).map(|node| &node.value) {
            Some(Value::Array(elements)) => &elements[..],
            _ => &[],
        };
        let place = |index: usize| match list.get(index) {
            Some(element) => Place { path: format!("{key}[{index}]"), span: element.span.clone() },
            None => self.place(&[key]),
        };
        let errors = problems.map(|(index, problem)| ConfigError::new(place(index), problem));
        ConfigErrors::new(errors.collect()).after_set(&self.arguments)
    }

    /// Where the first of these keys stands that is written; if none is, where the last one's section stands.
    pub fn place(&self, keys: &[&str]) -> Place {
        let places: Vec<(Place, bool)> = keys.iter().map(|key| self.place_of(key)).collect();
        let written = places.iter().find(|(_, is_written)| *is_written).or(places.last());
        written.expect("a statement is about a key").0.clone()
    }

    /// Where a key stands, and whether it does.
    fn place_of(&self, key: &str) -> (Place, bool) {
        let mut node = &self.root;
        let mut span = Span { end: (node.span.start + 1).min(node.span.end), ..node.span.clone() };
        let mut is_written = true;
        for name in key.split('.') {
            let Value::Object(entries) = &node.value else { break };
            let Some(entry) = entries.iter().find(|entry| entry.key == name) else {
                is_written = false;
                break;
            };
            node = &entry.node;
            // A section is marked by its key, a value as a whole.
            span = if matches!(node.value, Value::Object(_)) { &entry.key_span } else { &node.span }.clone();
        }
        (Place { path: key.to_owned(), span }, is_written)
    }
}

fn is_auto(node: &Node) -> bool {
    matches!(&node.value, Value::String(word) if word == "auto")
}
