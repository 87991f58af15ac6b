//! What tells a master file, which names the engines of several models, from a run file, and what can be wrong with one.

use std::fmt;
use std::ops::Range;

use pipezero_files::json::{Entry, Node, Value, is_slip};

use super::shared_ranks::SharedRanks;

/// The key of a master file by which it is known: no run file has such a key.
pub(super) fn key_of_master(root: &Node) -> Option<&Entry> {
    let Value::Object(entries) = &root.value else { return None };
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    // One that describes a model itself is a run file with an unknown key.
    find("engines").or_else(|| find("tasks").filter(|_| find("model").is_none()))
}

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOf {
    /// An engine.
    Engine,
    /// A task.
    Task,
}

impl fmt::Display for NameOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Engine => "an engine",
            Self::Task => "a task",
        })
    }
}

/// A mistake of the kinds that only files of several models have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MasterProblem {
    /// A master file where the run file of one model belongs.
    InsteadOfRunFile,
    /// No such key at its top level.
    UnknownKey {
        /// The known key that is spelled most like it, if any is near.
        nearest: Option<String>,
    },
    /// The name cannot be that of a folder, which an engine's is.
    BadName {
        /// What it is the name of.
        of: NameOf,
    },
    /// A key of another system with several configurations.
    SeveralConfigs {
        /// A master file that says it.
        master: String,
    },
    /// There is nothing in it.
    Empty {
        /// What is missing.
        of: NameOf,
    },
    /// A task says nothing of what is done.
    NoKind,
    /// A task says of two things that it does them.
    TwoKinds {
        /// Where the other stands, as line and column.
        first: (usize, usize),
    },
    /// No such key of a distillation.
    UnknownKeyOfDistill {
        /// The known key that is spelled most like it, if any is near.
        nearest: Option<String>,
    },
    /// A student and a teacher whose logits are not of the same shape.
    OtherShape {
        /// The size in which they differ.
        key: &'static str,
        /// The student, and its size.
        student: (String, usize),
        /// The teacher, and its size.
        teacher: (String, usize),
    },
    /// A teacher that computes no logits.
    NoLogits {
        /// The engine.
        name: String,
    },
    /// Weights for an engine that the task does not name.
    NotInTask {
        /// The name.
        name: String,
        /// The engines that the task has.
        known: Vec<String>,
        /// That of them which is spelled most like it, if any is near.
        nearest: Option<String>,
    },
    /// An engine that computes logits alone, and is given no weights.
    NoWeights {
        /// The engine.
        name: String,
    },
    /// A task has no such key.
    UnknownKeyOfTask {
        /// The known key that is spelled most like it, if any is near.
        nearest: Option<String>,
    },
    /// A task names an engine that the file does not have.
    UnknownEngine {
        /// The name.
        name: String,
        /// The engines that there are.
        known: Vec<String>,
        /// That of them which is spelled most like it, if any is near.
        nearest: Option<String>,
    },
    /// A task names an engine twice.
    EngineTwice {
        /// The name.
        name: String,
        /// Where it stands first, as line and column.
        first: (usize, usize),
    },
    /// The file of an engine cannot be read.
    NoFile {
        /// The file and the reason.
        reason: String,
    },
    /// Stdin as the file of an engine.
    Stdin,
    /// Another number of ranks than an engine's grid has.
    OtherNumber {
        /// The engine.
        name: String,
        /// How many it is given.
        given: usize,
        /// The first of them.
        first: usize,
        /// Its pipeline degree.
        pipeline: usize,
        /// Its data degree.
        data: usize,
    },
    /// A number of ranks that does not suit all engines, which share them.
    SharedRanks(SharedRanks),
    /// Ranks that no engine has.
    UnusedRanks {
        /// Some of them, which follow each other.
        unused: Range<usize>,
    },
    /// Another number of ranks than a launcher has started.
    OtherJob {
        /// How many the engines have.
        needed: usize,
        /// How many were started.
        launched: usize,
    },
}

/// Kinds of tasks.
pub(super) const KINDS: [&str; 2] = ["train", "distill"];

/// Keys of a task: its kind, the weights with which its engines begin, and which ranks they have.
pub(super) const KEYS_OF_TASK: [&str; 4] = ["train", "distill", INIT, RANKS];

/// The key of the weights with which engines of a task begin.
pub(super) const INIT: &str = "init";

/// The key of the ranks that engines of a task have.
pub(super) const RANKS: &str = "ranks";

/// Keys of a distillation.
pub(super) const KEYS_OF_DISTILL: [&str; 4] = ["student", "teacher", "temperature", "alpha"];

/// Keys of a master file.
pub(super) const KEYS: [&str; 2] = ["engines", "tasks"];

/// Characters of a name at most.
pub(super) const NAME_MAX: usize = 64;

/// The folder beside engines' run directories in which processes leave what they say: no engine is called so.
pub(super) const TAKEN_NAME: &str = "logs";

/// Whether a text can be the name of an engine, and so of its folder, or of a task.
pub(super) fn is_name(text: &str, of: NameOf) -> bool {
    if of == NameOf::Engine && text == TAKEN_NAME {
        return false;
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_MAX).contains(&text.len()) && !text.starts_with('.') && text.chars().all(is_allowed)
}

/// The names as a list: `` `a`, `b` ``.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// `1 rank`, `4 ranks`.
fn ranks_counted(count: usize) -> String {
    if count == 1 { "1 rank".to_owned() } else { format!("{count} ranks") }
}

/// `rank 4`, `ranks 0-3`, with what stands between the first and the last.
pub(super) fn ranks_in_words(ranks: &Range<usize>, between: &str) -> String {
    match ranks.len() {
        1 => format!("rank {}", ranks.start),
        _ => format!("ranks {}{between}{}", ranks.start, ranks.end.saturating_sub(1)),
    }
}

impl MasterProblem {
    /// What a key was meant to be, where it is a slip of one letter. Names of engines may differ in no more, so a wrong one may mean any.
    pub(super) fn meant(&self, key: &str) -> Option<&str> {
        match self {
            Self::UnknownKey { nearest }
            | Self::UnknownKeyOfTask { nearest }
            | Self::UnknownKeyOfDistill { nearest } => nearest.as_deref().filter(|of| is_slip(key, of)),
            _ => None,
        }
    }

    /// What is wrong at a key of this path, which is quoted already.
    pub(super) fn message(&self, path: &str) -> String {
        match self {
            Self::InsteadOfRunFile => format!(
                "{path} is a key of a master file, which names several models; here the run file of one is needed"
            ),
            Self::UnknownKey { .. } => format!("unknown key {path} of a master file"),
            Self::SeveralConfigs { .. } => {
                format!("{path} is a key of other systems; here several models are engines of a master file")
            }
            Self::BadName { of } => format!("{path}: this cannot be the name of {of}"),
            Self::Empty { of: NameOf::Engine } => format!("{path} names no engine"),
            Self::Empty { of: NameOf::Task } => format!("{path} names no task"),
            Self::NoKind => format!("{path} does not say what the task does"),
            Self::TwoKinds { first: (line, column) } => {
                format!("{path}: a task does one thing, and what stands at {line}:{column} is another")
            }
            Self::UnknownKeyOfDistill { .. } => format!("unknown key {path} of a distillation"),
            Self::OtherShape { key, student, teacher } => format!(
                "{path} is `{}`, of `model.{key}` {}, and its student `{}` has {}: the student learns from logits of its own shape",
                teacher.0, teacher.1, student.0, student.1
            ),
            Self::NoLogits { name } => {
                format!("{path} is `{name}`, of the family \"timed\", which computes no logits")
            }
            Self::NotInTask { name, .. } => format!("{path}: the task has no engine `{name}`"),
            Self::NoWeights { name } => format!(
                "{path} is `{name}`, which computes logits and is not trained, and nothing says with which weights"
            ),
            Self::UnknownKeyOfTask { .. } => format!("{path}: a task has no such key"),
            Self::UnknownEngine { name, .. } => format!("{path} is `{name}`, and there is no such engine"),
            Self::EngineTwice { name, first: (line, column) } => {
                format!("{path} is `{name}` again, which stands at {line}:{column}")
            }
            Self::NoFile { reason } => format!("{path}: {reason}"),
            Self::Stdin => format!("{path} is stdin, which only the file of the command line may be"),
            Self::OtherNumber { name, given, pipeline, data, .. } => format!(
                "{path} is {}, and the grid of `{name}` has {}: pipeline {pipeline} x data {data}",
                ranks_counted(*given),
                ranks_counted(pipeline * data),
            ),
            Self::SharedRanks(shared) => format!("{path}: {}", shared.rule()),
            Self::UnusedRanks { unused } => {
                format!("{path}: no engine has {}", ranks_in_words(unused, " to "))
            }
            Self::OtherJob { needed, launched } => {
                format!(
                    "{path}: the engines have {}, and the launcher started {launched}",
                    ranks_counted(*needed)
                )
            }
        }
    }

    /// What to write instead.
    pub(super) fn repair(&self) -> Option<String> {
        Some(match self {
            Self::InsteadOfRunFile => "`train`, `check` and `plan` alone take a master file; for all else name the run file of one engine, such as \
                 the run.json in its run directory"
                .to_owned(),
            Self::UnknownKey { nearest: Some(nearest) }
            | Self::UnknownKeyOfTask { nearest: Some(nearest) }
            | Self::UnknownKeyOfDistill { nearest: Some(nearest) } => format!("did you mean `{nearest}`?"),
            Self::TwoKinds { .. } => "make two tasks of it".to_owned(),
            Self::UnknownKeyOfDistill { nearest: None } => {
                format!("the known ones are: {}", listed(KEYS_OF_DISTILL))
            }
            Self::OtherShape { key, student, .. } => {
                format!("take a teacher with `model.{key}` {}, or change the student's", student.1)
            }
            Self::NoLogits { .. } => "take an engine of another family".to_owned(),
            Self::NoWeights { name } => format!(
                "add \"init\": {{\"{name}\": \"ITS-RUN-DIRECTORY\"}} to the task, or give `train` --init {name}=DIR"
            ),
            Self::UnknownKey { nearest: None } => format!(
                "a master file has {}; what is of one model belongs into the run file of its engine",
                KEYS.map(|key| format!("`{key}`")).join(" and ")
            ),
            Self::SeveralConfigs { master } => format!("write {master}"),
            Self::BadName { of } => {
                let but = if *of == NameOf::Engine { format!(", and not `{TAKEN_NAME}`") } else { String::new() };
                format!(
                    "use ASCII letters, digits, `-`, `_` and `.`, not `.` first, and at most {NAME_MAX}{but}: the run directory of an engine is called so"
                )
            }
            Self::Empty { of: NameOf::Engine } => "name at least one engine".to_owned(),
            Self::Empty { of: NameOf::Task } => {
                r#"add a task: {"NAME": {"train": ["ENGINE", ...]}}"#.to_owned()
            }
            Self::NoKind => {
                r#"write {"train": ["ENGINE", ...]}, or {"distill": {"student": "ENGINE", "teacher": "ENGINE", ...}}"#.to_owned()
            }
            Self::UnknownKeyOfTask { nearest: None } => format!(
                "what it does is {}, beside which it may have {}",
                KINDS.map(|key| format!("`{key}`")).join(" or "),
                [INIT, RANKS].map(|key| format!("`{key}`")).join(" and ")
            ),
            Self::UnknownEngine { known, nearest, .. } | Self::NotInTask { known, nearest, .. } => {
                let nearest =
                    nearest.as_ref().map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "));
                format!("{nearest}the engines are: {}", listed(known.iter().map(String::as_str)))
            }
            Self::EngineTwice { .. } => "keep one of the two".to_owned(),
            Self::NoFile { .. } => return None,
            Self::Stdin => "name a file, or write the engine's run file here".to_owned(),
            Self::OtherNumber { first, pipeline, data, .. } => {
                let needed = ranks_in_words(&(*first..first + pipeline * data), "-");
                let (_, numbers) = needed.split_once(' ').unwrap_or_default();
                format!("write \"{numbers}\", or another grid in its run file")
            }
            Self::SharedRanks(shared) => shared.repair(),
            Self::UnusedRanks { .. } => {
                "let the ranks of the engines leave no gap, from 0 on; an engine that is not named begins at rank 0".to_owned()
            }
            Self::OtherJob { needed, .. } => format!("have it start {needed}"),
        })
    }
}
