//! The tasks of a master file, and how one of them is chosen.

use crate::config::several::listed;
use crate::files::json::nearest;

/// A task: what is done with which engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: TaskKind,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskKind {
    /// Trains these engines, each for itself.
    Train(Vec<String>),
}

impl Task {
    /// The engines that take part, in the order of the file.
    pub fn engines(&self) -> &[String] {
        match &self.kind {
            TaskKind::Train(engines) => engines,
        }
    }
}

/// Why it is not known which task is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTask {
    /// The file has no such task.
    #[error(
        "--task {name}: {file} has no such task; {}its tasks are: {}",
        did_you_mean(name, known),
        list(known)
    )]
    Unknown {
        /// The name.
        name: String,
        /// The file.
        file: String,
        /// The tasks that there are.
        known: Vec<String>,
    },
    /// None was named, and the file has several.
    #[error("{file} has several tasks: name one of them with --task; they are: {}", list(known))]
    Several {
        /// The file.
        file: String,
        /// The tasks that there are.
        known: Vec<String>,
    },
}

fn list(known: &[String]) -> String {
    listed(known.iter().map(String::as_str))
}

fn did_you_mean(name: &str, known: &[String]) -> String {
    let nearest = nearest(name, known.iter().map(String::as_str));
    nearest.map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "))
}
