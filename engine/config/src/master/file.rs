//! A master file that is read: its engines, its tasks, and the run file of an engine on demand.

use std::path::{Path, PathBuf};

use pipezero_files::input::{is_stdio, named};
use pipezero_files::json::{Node, Source, Span};

use super::engine::{EngineEntry, EngineFile, EngineSource};
use super::ranks::MAX_RANKS;
use super::read;
use super::task::{NoTask, Task};
use crate::error::{ConfigError, ConfigErrors, Problem};
use crate::place::Place;
use crate::run_file::RunFile;
use crate::several::{MasterProblem, listed};
use crate::shared_ranks::{RanksNeeded, SharedRanks};
use crate::whole_number;

/// A master file.
#[derive(Clone, Debug)]
pub struct MasterFile {
    /// As the command line names it.
    path: PathBuf,
    /// The absolute folder at which paths in it start.
    folder: PathBuf,
    engines: Vec<EngineEntry>,
    tasks: Vec<Task>,
}

/// What the key of an engine begins with.
const ENGINES: &str = "engines.";

impl MasterFile {
    pub(crate) fn of_node(root: &Node, path: &Path, folder: PathBuf) -> Result<Self, ConfigErrors> {
        let (engines, tasks) = read::read(root, &folder)?;
        Ok(Self { path: path.to_owned(), folder, engines, tasks })
    }

    /// The file, as messages call it.
    pub fn name(&self) -> String {
        named(&self.path).display().to_string()
    }

    /// The names of all engines, in the order of the file.
    pub fn engines(&self) -> impl Iterator<Item = &str> {
        self.engines.iter().map(|engine| engine.name.as_str())
    }

    /// All tasks, in the order of the file.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The task of this name, or the only one.
    ///
    /// # Errors
    /// When there is none of this name, or no name was given and there are several.
    pub fn task(&self, name: Option<&str>) -> Result<&Task, NoTask> {
        let known = || self.tasks.iter().map(|task| task.name.clone()).collect();
        let file = || self.name();
        match (name, self.tasks.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => Err(NoTask::Several { file: file(), known: known() }),
            (Some(name), tasks) => tasks
                .iter()
                .find(|task| task.name == name)
                .ok_or_else(|| NoTask::Unknown { name: name.to_owned(), file: file(), known: known() }),
        }
    }

    /// Overrides keys of engines: each argument is `engines.NAME.key.path=value`, else as [`RunFile::set`] has it. What is wrong behind the
    /// engine's name is found when its run file is read.
    ///
    /// # Errors
    /// When an argument is about no engine, or about one that is not among these.
    pub fn set(mut self, arguments: &[String], engines: &[String]) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        for argument in arguments {
            let is_about = |name: &str| key_of(argument, name).is_some();
            // Names may hold dots: the longest that fits is meant.
            let entries = self.engines.iter_mut().filter(|engine| is_about(&engine.name));
            match entries.max_by_key(|engine| engine.name.len()) {
                Some(engine) if engines.contains(&engine.name) => engine.arguments.push(argument.clone()),
                _ => errors.push(not_of_an_engine(argument, engines)),
            }
        }
        if errors.is_empty() { Ok(self) } else { Err(ConfigErrors::new(errors)) }
    }

    /// Whether the run files that it names are there, which are not read.
    pub(crate) fn find_files(&self) -> Result<(), ConfigErrors> {
        let missing = |engine: &EngineEntry| {
            let EngineSource::File { path, span } = &engine.at else { return None };
            let error = std::fs::metadata(self.folder.join(path)).err()?;
            let reason = format!("{}: cannot read the run file: {error}", path.display());
            Some(no_file(&engine.name, span, reason))
        };
        let missing: Vec<ConfigError> = self.engines.iter().filter_map(missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(ConfigErrors::of_master(missing)) }
    }

    /// Refuses a job of as many ranks as a launcher has started, if one has, where they do not suit all engines of a task, which share them and need
    /// different numbers: what is said of one engine would be wrong for another.
    ///
    /// # Errors
    /// One, at the task.
    pub fn check_shared_ranks(&self, task: &Task, launched: Option<usize>) -> Result<(), ConfigErrors> {
        let Some(launched) = launched.filter(|_| !task.says_ranks()) else { return Ok(()) };
        let needed = |name: String| {
            // What is wrong with its file is said when it is resolved.
            let needed = ranks_needed(&self.engine(&name).ok()?.file)?;
            Some((name, needed))
        };
        let engines: Option<Vec<_>> = task.engines().into_iter().map(needed).collect();
        match engines.map(|engines| SharedRanks { launched, engines }).filter(SharedRanks::are_at_odds) {
            Some(shared) => Err(task.error(MasterProblem::SharedRanks(shared))),
            None => Ok(()),
        }
    }

    /// The run file of an engine, with its overrides.
    ///
    /// # Errors
    /// As [`RunFile::load`] and [`RunFile::set`], and when its file cannot be read.
    ///
    /// # Panics
    /// When there is no engine of this name.
    pub fn engine(&self, name: &str) -> Result<EngineFile, ConfigErrors> {
        let entry = self.engines.iter().find(|engine| engine.name == name);
        let entry = entry.expect("tasks name engines that are there");
        let key = format!("{ENGINES}{name}");
        let has_file = |other: &EngineEntry, own: &Path| match &other.at {
            EngineSource::File { path, .. } => other.name != name && path == own,
            EngineSource::Inline(_) => false,
        };
        let is_shared = match &entry.at {
            EngineSource::File { path, .. } => self.engines.iter().any(|other| has_file(other, path)),
            EngineSource::Inline(_) => false,
        };
        let (file, path, prefix) = match &entry.at {
            EngineSource::Inline(node) => {
                let file = RunFile::of_node(node.clone(), self.folder.clone());
                let file = file.map_err(|errors| errors.within(&key))?;
                (file, self.path.clone(), Some(key.clone()))
            }
            EngineSource::File { path, span } => {
                let of_master = if is_stdio(&self.path) { Path::new("") } else { &self.path };
                let path = of_master.parent().unwrap_or(Path::new("")).join(path);
                let file = RunFile::load(&path).map_err(|errors| match errors.unreadable() {
                    Some(reason) => ConfigErrors::new(vec![no_file(name, span, reason)]),
                    None => errors,
                })?;
                (file, path, None)
            }
        };
        let engine = EngineFile { name: name.to_owned(), file, path, prefix, is_shared };
        let set = engine.file.clone().set_below(&format!("{key}."), &entry.arguments);
        match set {
            Ok(file) => Ok(EngineFile { file, ..engine }),
            Err(errors) => Err(engine.in_place(errors)),
        }
    }
}

/// How many ranks a run file needs; `None` where it says nothing that a grid could have.
fn ranks_needed(file: &RunFile) -> Option<RanksNeeded> {
    let number = |key: &str| usize::try_from(whole_number::read(file.root.find(key)?.number()?).ok()?).ok();
    let is_grid = |ranks: &usize| (1..=MAX_RANKS).contains(ranks);
    let pipeline = if file.has("parallel.pipeline") { number("parallel.pipeline")? } else { 1 };
    match number("parallel.data") {
        Some(data) => pipeline.checked_mul(data).filter(is_grid).map(RanksNeeded::Exactly),
        None => Some(pipeline).filter(is_grid).map(RanksNeeded::MultipleOf),
    }
}

/// The mistake that the run file of an engine cannot be read.
fn no_file(name: &str, span: &Span, reason: String) -> ConfigError {
    let place = Place { path: format!("{ENGINES}{name}"), span: span.clone() };
    ConfigError::new(place, Problem::Master(MasterProblem::NoFile { reason }))
}

/// What an argument says behind the name of an engine, if it is about that.
fn key_of<'a>(argument: &'a str, name: &str) -> Option<&'a str> {
    argument.strip_prefix(ENGINES)?.strip_prefix(name)?.strip_prefix('.')
}

fn not_of_an_engine(argument: &str, engines: &[String]) -> ConfigError {
    let source = Source::argument(argument);
    let place = Place { path: String::new(), span: source.span(0, argument.len()) };
    let problem = Problem::Syntax {
        message: "it changes no key of an engine that is used".to_owned(),
        repair: Some(format!(
            "of a master file write --set engines.NAME.KEY=VALUE, with one of these as NAME: {}",
            listed(engines.iter().map(String::as_str))
        )),
    };
    ConfigError::new(place, problem)
}
