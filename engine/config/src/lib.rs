//! The run file: from JSON as a user wrote it to a [`Run`] with every default filled in and every rule checked.
//!
//! [`RunFile`] reads and resolves; [`ConfigErrors`] holds everything that is wrong, each with its place; [`Notice`]s are
//! what a reader should know although nothing is wrong. Keys are declared once, in `raw`, and from there come reading,
//! the JSON [`schema()`] and the tables of docs/run-file.md.

mod aliases;
mod auto_section;
mod batch_keys;
mod byte_size;
mod changed_keys;
mod data_path;
mod effective;
mod elsewhere;
mod error;
mod extends;
mod findings;
mod fix;
pub mod hugging_face;
mod kept_batch;
mod keys;
mod kind;
mod known_key;
mod master;
pub mod model_sizes;
mod name_pattern;
mod notice;
pub mod order;
mod other_forms;
mod other_type_words;
mod overlap_comm;
mod partition_method;
pub mod pattern;
mod place;
mod raw;
mod reference;
mod refusal;
mod resolve;
mod resources;
mod run_file;
mod run_text;
mod schedule_name;
mod schema;
mod section;
mod set;
mod several;
mod sharding_rule;
mod shared_ranks;
mod student_run;
mod token_type;
mod unit_layers;
mod whole_number;
mod words;

pub mod resolved;

pub use byte_size::parse as parse_bytes;
pub use changed_keys::{ChangedKey, Effect};
pub use data_path::DataPath;
pub use effective::Copies;
pub use elsewhere::Elsewhere;
pub use error::{ConfigError, ConfigErrors, Problem};
pub use extends::ValueOrigin;
pub use fix::{Change, Fixed, Unfixed};
pub use master::{EngineFile, GivenFile, JobRanks, MasterFile, NoTask, Part, Task, TaskKind, master_schema};
pub use notice::{Notice, NoticeKind};
pub use other_forms::takes_one_file;
pub use reference::reference;
pub use refusal::{CombinationRow, CombinationTable, Refusal};
pub use resolved::*;
pub use resources::{HostGpu, PartOfJob, Resources};
pub use run_file::RunFile;
pub use schema::schema;
pub use several::{MasterProblem, NameOf};
pub use shared_ranks::{RanksNeeded, SharedRanks};
pub use student_run::StudentRun;
pub use token_type::TokenType;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
