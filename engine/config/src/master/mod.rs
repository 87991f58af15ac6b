//! The master file: the engines of several models, each an ordinary run file, and the tasks in which they take part.
//!
//! ```text
//! {"engines": {"NAME": "its-run-file.json", "OTHER": {...a run file...}},
//!  "tasks": {"TASK": {"train": ["NAME", "OTHER"]},
//!            "LEARN": {"distill": {"student": "NAME", "teacher": "OTHER", "temperature": 2, "alpha": 0.5}, "init": {"OTHER": "its-run"},
//!                      "ranks": {"NAME": "0-3", "OTHER": "4-7"}}}}
//! ```
//!
//! Only what the file itself says is read when it is loaded. The run file of an engine is read when a command needs that engine, so
//! the others cost nothing.

mod engine;
mod file;
mod given;
mod ranks;
mod read;
mod read_task;
mod reader;
mod schema;
mod task;

pub use engine::EngineFile;
pub use file::MasterFile;
pub use given::GivenFile;
pub use ranks::JobRanks;
pub use schema::master_schema;
pub use task::{NoTask, Part, Task, TaskKind};
