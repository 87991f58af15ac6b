//! Checkpoints of several engines that belong together.
//!
//! ```text
//! FOLDER/joint.json                            which steps belong together, the newest last
//! FOLDER/ENGINE/checkpoints/step-00000012/     what an engine was after its step 12
//! ```
//!
//! Steps are listed once the checkpoints of all engines are complete, and a listed one stays until others are: so whenever the processes are killed,
//! there is a set in which each engine is where the others were with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::folder::Checkpoints;
use super::reader::CheckpointReader;
use crate::files::partial::{Existing, PartialFile};

/// The version of the list that this program writes and reads.
const VERSION: u64 = 1;

/// The checkpoints of several engines in one folder. [`JointCheckpoints::write`] writes one of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JointCheckpoints {
    folder: PathBuf,
    num_kept: usize,
}

/// One checkpoint of each of several engines, written together.
#[derive(Clone, Debug)]
pub struct JointCheckpoint {
    readers: BTreeMap<String, Arc<CheckpointReader>>,
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

impl JointCheckpoint {
    /// The checkpoint of an engine, for [`Engine::resume`](crate::run::engine::Engine::resume); `None` if the engine was not among those that were
    /// written.
    pub fn of(&self, engine: &str) -> Option<&Arc<CheckpointReader>> {
        self.readers.get(engine)
    }

    /// The step of each engine.
    pub(crate) fn steps(&self) -> JointSteps {
        let steps = self.readers.iter();
        steps.map(|(engine, reader)| (engine.clone(), reader.manifest().position.step)).collect()
    }
}

impl JointCheckpoints {
    /// The name of the list in its folder.
    pub const LIST: &str = "joint.json";

    /// Those in a folder, which need not be there. Where ranks are processes, all hosts share it.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), num_kept: usize::MAX }
    }

    /// The same, of which only the last `num_kept` stay when another is complete, and at least one.
    pub fn keeping(self, num_kept: usize) -> Self {
        Self { num_kept: num_kept.max(1), ..self }
    }

    /// The newest of which the manifests and headers of all engines are sound; `None` where none was written.
    ///
    /// # Errors
    /// When a file cannot be read, the list is damaged or of another version, or all that are listed are damaged.
    pub fn newest(&self) -> Result<Option<JointCheckpoint>, CheckpointError> {
        self.newest_of(self.sets()?)
    }

    /// The newest sound one that is older than this one, of which a file has turned out to be damaged.
    ///
    /// # Errors
    /// As [`JointCheckpoints::newest`].
    pub fn before(&self, this: &JointCheckpoint) -> Result<Option<JointCheckpoint>, CheckpointError> {
        let steps = this.steps();
        let mut sets = self.sets()?;
        sets.truncate(sets.iter().position(|set| *set == steps).unwrap_or(0));
        self.newest_of(sets)
    }

    fn newest_of(&self, sets: Vec<JointSteps>) -> Result<Option<JointCheckpoint>, CheckpointError> {
        let mut refused = Vec::new();
        for set in sets.into_iter().rev() {
            let open = |(engine, step): (String, u64)| {
                let folder = self.of(&engine).at(step);
                if !folder.is_dir() {
                    return Err(CheckpointError::damaged(&folder, "it is listed, and is not there"));
                }
                Ok((engine, Arc::new(CheckpointReader::open(&folder)?)))
            };
            match set.into_iter().map(open).collect::<Result<_, CheckpointError>>() {
                Ok(readers) => return Ok(Some(JointCheckpoint { readers })),
                Err(error) if error.is_damage() => refused.push(error),
                Err(error) => return Err(error),
            }
        }
        CheckpointError::of_all(refused).map_or(Ok(None), Err)
    }

    /// The checkpoints of one engine.
    pub(crate) fn of(&self, engine: &str) -> Checkpoints {
        Checkpoints::of_run(&self.folder.join(engine)).keeping(self.num_kept)
    }

    /// Those that are listed, the newest last.
    fn sets(&self) -> Result<Vec<JointSteps>, CheckpointError> {
        let path = self.list();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(CheckpointError::io(&path))?,
        };
        let list: List = serde_json::from_slice(&text)
            .map_err(|error| CheckpointError::damaged(&path, format!("it is no list of steps: {error}")))?;
        if list.version != VERSION {
            return Err(CheckpointError::Version { path, found: list.version, known: VERSION });
        }
        Ok(list.sets)
    }

    /// Lists a set of which all checkpoints are complete, behind the one that the engines have gone on from, if any; later ones are not gone on from
    /// any more.
    pub(crate) fn add(&self, set: &JointSteps, after: Option<&JointSteps>) -> Result<(), CheckpointError> {
        let mut sets = self.sets()?;
        sets.truncate(
            after.and_then(|after| sets.iter().position(|set| set == after)).map_or(0, |at| at + 1),
        );
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
            .and_then(|file| file.finish_with(&(text + "\n")));
        written.map_err(CheckpointError::io(&path))
    }

    fn list(&self) -> PathBuf {
        self.folder.join(Self::LIST)
    }
}
