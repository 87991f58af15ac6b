//! Checkpoints of several engines that belong together.
//!
//! ```text
//! FOLDER/joint.json                            which steps belong together, the newest last
//! FOLDER/ENGINE/checkpoints/step-00000012/     what an engine was after its step 12
//! ```
//!
//! Steps are listed once the checkpoints of all engines are complete, and those that are listed last stay until others are: so whenever the processes are
//! killed, there is a set in which each engine is where the others were with it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use pipezero_files::input::read_bytes;
use pipezero_files::partial::{Existing, PartialFile};
use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::folder::Checkpoints;
use super::reader::CheckpointReader;

/// The version of the list that this program writes and reads.
const VERSION: u64 = 1;

/// The checkpoints of several engines in one folder. [`JointCheckpoints::write`] writes one of each, and [`JointCheckpoints::resume`] goes on from
/// those that were written together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointCheckpoints {
    folder: PathBuf,
    num_kept: usize,
    /// What the engines have gone on from, or what was written last.
    pub(crate) last: Option<JointSteps>,
}

/// Steps by the names of engines.
pub(crate) type JointSteps = BTreeMap<String, u64>;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    version: u64,
    /// The newest last.
    sets: Vec<JointSteps>,
}

impl JointCheckpoints {
    /// The name of the list in its folder.
    pub const LIST: &str = "joint.json";
    /// Bytes of the list at most: it has a number for each engine and checkpoint.
    const LIST_BYTES_MAX: u64 = 64 << 20;

    /// Those in a folder, which need not be there. Where ranks are processes, all hosts share it.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), num_kept: usize::MAX, last: None }
    }

    /// The same, of which only the last `num_kept` stay when another is complete, and at least one.
    pub fn keeping(self, num_kept: usize) -> Self {
        Self { num_kept: num_kept.max(1), ..self }
    }

    /// The list's file.
    pub(crate) fn list(&self) -> PathBuf {
        self.folder.join(Self::LIST)
    }

    /// Opens the checkpoint of an engine after a step that is listed.
    pub(crate) fn open(&self, engine: &str, step: u64) -> Result<CheckpointReader, CheckpointError> {
        let folder = self.of(engine).at(step);
        if !folder.is_dir() {
            return Err(CheckpointError::damaged(&folder, "it is listed, and is not there"));
        }
        CheckpointReader::open(&folder)
    }

    /// The checkpoints of one engine.
    pub(crate) fn of(&self, engine: &str) -> Checkpoints {
        Checkpoints::of_run(&self.folder.join(engine)).keeping(self.num_kept)
    }

    /// Those that are listed, the newest last.
    pub(crate) fn sets(&self) -> Result<Vec<JointSteps>, CheckpointError> {
        let path = self.list();
        let text = match read_bytes(&path, Self::LIST_BYTES_MAX) {
            Err(error) if error.is_missing() => return Ok(Vec::new()),
            text => text.map_err(|error| CheckpointError::io(&path)(io::Error::other(error)))?,
        };
        let list: List = serde_json::from_slice(&text)
            .map_err(|error| CheckpointError::damaged(&path, format!("it is no list of steps: {error}")))?;
        if list.version != VERSION {
            return Err(CheckpointError::Version { path, found: list.version, known: VERSION });
        }
        Ok(list.sets)
    }

    /// Lists a set of which all checkpoints are complete, behind the last that the engines have gone on from or written: what is listed behind that
    /// is not gone on from any more.
    pub(crate) fn add(&self, set: &JointSteps) -> Result<(), CheckpointError> {
        let mut sets = self.sets()?;
        let last = self.last.as_ref().and_then(|last| sets.iter().position(|set| set == last));
        sets.truncate(last.map_or(0, |at| at + 1));
        // Those of which a checkpoint has been removed, for it was one of too many, are listed no more.
        let is_there = |set: &JointSteps| set.iter().all(|(engine, &step)| self.of(engine).at(step).is_dir());
        sets.retain(|listed| listed != set && is_there(listed));
        sets.push(set.clone());
        sets.drain(..sets.len().saturating_sub(self.num_kept));
        let text =
            serde_json::to_string_pretty(&List { version: VERSION, sets }).expect("it has string keys");
        let path = self.list();
        let written = PartialFile::remove_leftover(&path)
            .and_then(|()| PartialFile::create(&path, Existing::Replaced))
            .and_then(|file| file.finish_with(text + "\n"));
        written.map_err(CheckpointError::io(&path))
    }
}
