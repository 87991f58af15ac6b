//! The folder of a run's checkpoints: how one gets its name, which ones there are, and which are kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pipezero_files::folder;

use super::error::CheckpointError;
use super::folder_name::{folder_name, step_of};
use super::foreign::{System, system_of};
use super::manifest::Manifest;
use super::reader::CheckpointReader;
use super::starts::{Starts, StepOfStart};

/// The checkpoints of a run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    pub(super) path: PathBuf,
    /// How many stay when another is complete.
    num_kept: usize,
    /// Steps of checkpoints that the run did not go on from, damaged ones for example: they go when another is complete.
    superseded: Vec<u64>,
    /// The step of one that stays, however many are newer.
    protected: Option<u64>,
    /// Steps of checkpoints that could not be read, which therefore stay.
    unreadable: Vec<u64>,
    /// Whether the run directory was there: if it has been removed, it is not made again.
    pub(super) run_dir_is_there: bool,
}

impl Checkpoints {
    /// The name of the folder in a run directory.
    pub const NAME: &str = "checkpoints";
    /// The ending of a checkpoint's name while it is being written.
    const PARTIAL: &str = ".partial";
    /// The ending of its name while it is being removed.
    const REMOVED: &str = ".removed";

    /// Those of a run directory; the folder need not be there.
    pub fn of_run(run_dir: &Path) -> Self {
        Self {
            path: run_dir.join(Self::NAME),
            num_kept: usize::MAX,
            superseded: Vec::new(),
            protected: None,
            unreadable: Vec::new(),
            run_dir_is_there: false,
        }
    }

    /// The same, of which only the last `num_kept` stay when another is complete.
    pub fn keeping(self, num_kept: usize) -> Self {
        Self { num_kept, ..self }
    }

    /// The same for a run whose directory is there, and that goes on after a step: later checkpoints go when another is complete.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn after(self, step: u64) -> Result<Self, CheckpointError> {
        Ok(Self { run_dir_is_there: true, ..self.superseding(step)? })
    }

    /// The same, of which those after a step go when another is complete.
    ///
    /// # Errors
    /// As [`Checkpoints::after`].
    pub(crate) fn superseding(self, step: u64) -> Result<Self, CheckpointError> {
        let superseded = self.steps()?.into_iter().filter(|&found| found > step).collect();
        Ok(Self { superseded, ..self })
    }

    /// The same, of which that of a step stays, however many are newer.
    pub(crate) fn protecting(self, step: u64) -> Self {
        Self { protected: Some(step), ..self }
    }

    /// The same, of which those of these steps stay: they could not be read, and may be whole.
    pub fn sparing(self, unreadable: Vec<u64>) -> Self {
        Self { unreadable, ..self }
    }

    /// The same once another is complete.
    pub fn without_superseded(self) -> Self {
        Self { superseded: Vec::new(), ..self }
    }

    /// The folder of one checkpoint: `path` itself, if it is one, or that of a run directory after a step, or its newest.
    ///
    /// # Errors
    /// When there is none, or it is one of another system.
    pub fn find(path: &Path, step: Option<u64>) -> Result<PathBuf, CheckpointError> {
        if step.is_none() && path.join(Manifest::FILE).is_file() {
            return Ok(path.to_owned());
        }
        let is_theirs = path.file_name().is_some_and(|name| name == Self::NAME);
        let run_dir = path.parent().filter(|_| is_theirs).unwrap_or(path);
        let checkpoints = Self::of_run(run_dir);
        let starts = Starts::read(run_dir)?;
        let steps = checkpoints.steps_of(&starts)?;
        let is_of_run = |step: u64| checkpoints.is_of(&starts, step);
        let found =
            steps.iter().rev().find(|&&found| step.map_or_else(|| is_of_run(found), |step| step == found));
        match found {
            Some(&step) => Ok(checkpoints.at(step)),
            None if starts.is_being_removed() => {
                let reason = "no checkpoint: its run was being replaced with --overwrite".to_owned();
                Err(CheckpointError::NotFound { path: path.to_owned(), reason })
            }
            None => Err(checkpoints.not_found(path, step, &steps)),
        }
    }

    /// Opens the checkpoint that [`Checkpoints::find`] finds.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn open(path: &Path, step: Option<u64>) -> Result<CheckpointReader, CheckpointError> {
        CheckpointReader::open(&Self::find(path, step)?)
    }

    fn not_found(&self, path: &Path, step: Option<u64>, steps: &[u64]) -> CheckpointError {
        let path = path.to_owned();
        if let Some(System { name, way }) = system_of(&path) {
            return CheckpointError::OtherSystem { path, name, way };
        }
        let known: Vec<String> = steps.iter().map(u64::to_string).collect();
        let reason = match step.filter(|_| !steps.is_empty()) {
            Some(step) => format!("no checkpoint of step {step}, but of {}", known.join(", ")),
            None if !path.exists() => "no checkpoint, and is not there".to_owned(),
            None => "no checkpoint".to_owned(),
        };
        CheckpointError::NotFound { path, reason }
    }

    /// The folder of the checkpoint after a step.
    pub fn at(&self, step: u64) -> PathBuf {
        self.path.join(folder_name(step))
    }

    /// Where the files of the checkpoint after a step are written.
    pub fn partial(&self, step: u64) -> PathBuf {
        with_ending(&self.at(step), Self::PARTIAL)
    }

    /// Whether a checkpoint is of the run as its last start goes on with it. One that cannot be read is: why is said where it is read.
    fn is_of(&self, starts: &Starts, step: u64) -> bool {
        Manifest::read(&self.at(step)).map_or(true, |manifest| starts.includes(StepOfStart::of(&manifest)))
    }

    /// The run directory.
    pub(super) fn run_dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Steps of complete checkpoints after a step that are of a branch which the run has left, in order.
    ///
    /// # Errors
    /// When the folder, or the list of starts, cannot be read.
    pub fn left_after(&self, step: u64) -> Result<Vec<u64>, CheckpointError> {
        let starts = Starts::read(self.run_dir())?;
        let later = self.steps_of(&starts)?.into_iter().filter(|&found| found > step);
        Ok(later.filter(|&found| !self.is_of(&starts, found)).collect())
    }

    /// Steps after which there are complete checkpoints, in order; none where the run is being removed.
    pub fn steps(&self) -> Result<Vec<u64>, CheckpointError> {
        self.steps_of(&Starts::read(self.run_dir())?)
    }

    fn steps_of(&self, starts: &Starts) -> Result<Vec<u64>, CheckpointError> {
        if starts.is_being_removed() {
            return Ok(Vec::new());
        }
        let steps = self.names()?.into_iter().filter_map(|name| step_of(&name));
        let mut steps: Vec<u64> = steps.filter(|&step| self.at(step).is_dir()).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    fn names(&self) -> Result<Vec<String>, CheckpointError> {
        let io = CheckpointError::io(&self.path);
        let entries = match fs::read_dir(&self.path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(&io)?,
        };
        let name = |entry: io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name());
        let names: Vec<_> = entries.map(name).collect::<Result<_, _>>().map_err(&io)?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// What is in the folder that no run wrote, if anything.
    pub fn first_unknown(&self) -> Result<Option<String>, CheckpointError> {
        let is_ours = |name: &str| {
            let endings = [Self::PARTIAL, Self::REMOVED];
            let name = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
            step_of(name).is_some()
        };
        Ok(self.names()?.into_iter().find(|name| !is_ours(name)))
    }

    /// The newest checkpoint of the run before a step whose manifest and headers are sound; why newer ones are not is added to `refused`. Those of a branch
    /// that the run has left do not count.
    pub fn newest_before(
        &self,
        step: u64,
        refused: &mut Vec<CheckpointError>,
    ) -> Result<Option<CheckpointReader>, CheckpointError> {
        let starts = Starts::read(self.run_dir())?;
        for step in self.steps_of(&starts)?.into_iter().rev().filter(|&found| found < step) {
            match CheckpointReader::open(&self.at(step)) {
                Ok(reader) if !starts.includes(StepOfStart::of(reader.manifest())) => {}
                Ok(reader) => return Ok(Some(reader)),
                Err(error) if error.is_damage() => refused.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Removes what a run that was killed had begun to write or to remove, as far as that can be.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn remove_leftovers(&self) -> Result<(), CheckpointError> {
        for name in self.names()? {
            let ending = [Self::PARTIAL, Self::REMOVED].iter().find_map(|ending| name.strip_suffix(ending));
            if ending.is_some_and(|name| step_of(name).is_some()) {
                // What cannot be removed is in the way of nothing else than the checkpoint of its step.
                let _ = folder::remove_itself(&self.path.join(name));
            }
        }
        Ok(())
    }

    /// Removes those that the new one supersedes, and the oldest of more than are to stay.
    pub(super) fn remove_oldest(&self, new: u64) -> Result<(), CheckpointError> {
        let is_superseded = |&step: &u64| step != new && self.superseded.contains(&step);
        let (superseded, steps): (Vec<_>, Vec<_>) = self.steps()?.into_iter().partition(is_superseded);
        let old = superseded.iter().chain(steps.iter().rev().skip(self.num_kept).rev());
        let stays = |step| step == new || self.protected == Some(step) || self.unreadable.contains(&step);
        let old = old.filter(|&&step| !stays(step));
        // One that cannot be removed keeps no other.
        let removed: Vec<_> = old.map(|&step| self.remove(step)).collect();
        removed.into_iter().collect()
    }

    /// Takes the name away first, so that no half of a checkpoint has it.
    pub(super) fn remove(&self, step: u64) -> Result<(), CheckpointError> {
        let path = self.at(step);
        let removed = with_ending(&path, Self::REMOVED);
        fs::rename(&path, &removed).map_err(CheckpointError::io(&path))?;
        folder::remove_itself(&removed).map_err(CheckpointError::io(&removed))
    }
}

pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}
