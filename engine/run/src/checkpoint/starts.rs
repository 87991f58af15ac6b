//! The starts of a run, in `starts.json` of its directory.
//!
//! A run that is resumed from an earlier step than its newest leaves a branch: checkpoints of later steps, which belong to it no more. Each start writes,
//! before it changes metrics, checkpoints or weights, after which step of which earlier start it goes on, and each checkpoint says which start wrote it. So the newest checkpoint *of the
//! run* is known, even if the last start was killed before it wrote one.
//!
//! The same file marks a directory whose run is being replaced: once the mark is on disk, nothing of the old run is read any more, and whoever starts
//! there next finishes the removal.

use std::io;
use std::path::Path;

use pipezero_files::folder;
use pipezero_files::input::{InputError, read_text};
use pipezero_files::partial::{Existing, PartialFile};
use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::manifest::Manifest;

/// A step of a run, and which start of the run did it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOfStart {
    /// The number of the start, from 1; 0 if nothing was done before, or if an earlier version, which did not count starts, did the step.
    pub start: u64,
    /// The step; 0 before the first.
    pub step: u64,
}

impl StepOfStart {
    /// The step that a checkpoint holds.
    pub fn of(manifest: &Manifest) -> Self {
        Self { start: manifest.start.unwrap_or(0), step: manifest.position.step }
    }
}

/// The starts of a run, as a file of its directory has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Starts {
    /// The format's version.
    version: u64,
    /// Whether the run is being removed, since another replaces it.
    is_being_removed: bool,
    /// `[start - 1]`: the step after which the start went on.
    from: Vec<StepOfStart>,
    /// The step of the weights file, if that is known.
    weights: Option<StepOfStart>,
}

impl Starts {
    /// The name of the file in a run directory.
    pub const FILE: &str = "starts.json";
    const VERSION: u64 = 1;
    /// Starts, at most, that a checkpoint from elsewhere may be ahead of those that are known.
    const UNKNOWN_MAX: u64 = 1 << 16;
    /// Bytes of the file that are read, at most: a start takes some 60.
    const BYTES_MAX: u64 = 64 << 20;

    /// Those of a run directory; none where there is no such file, as in one of an earlier version.
    ///
    /// # Errors
    /// When the file cannot be read, or is not as it was written.
    pub fn read(run_dir: &Path) -> Result<Self, CheckpointError> {
        let path = run_dir.join(Self::FILE);
        let damaged = |reason: String| CheckpointError::Starts { path: path.clone(), reason };
        let text = match read_text(&path, Self::BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.is_missing() => return Ok(Self::default()),
            Err(InputError::Io(source)) => return Err(CheckpointError::Io { path, source }),
            Err(error) => return Err(damaged(error.to_string())),
        };
        let starts: Self = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let of = |number: usize| number as u64 + 1;
        let is_later = |(number, from): (usize, &StepOfStart)| from.start >= of(number);
        match starts.from.iter().enumerate().find(|&start| is_later(start)) {
            _ if starts.version != Self::VERSION => {
                Err(damaged(format!("it is of version {}, and {} is read", starts.version, Self::VERSION)))
            }
            Some((number, from)) => {
                Err(damaged(format!("start {} cannot go on from start {}", of(number), from.start)))
            }
            None => Ok(starts),
        }
    }

    /// Adds a start that goes on after a step, in a file of a run directory; its number.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn add(run_dir: &Path, from: StepOfStart) -> Result<u64, CheckpointError> {
        let mut starts = Self::read(run_dir)?;
        if from.start > starts.last().saturating_add(Self::UNKNOWN_MAX) {
            let reason = format!("its run was started {} times, and none of that is known here", from.start);
            return Err(CheckpointError::Starts { path: run_dir.join(Self::FILE), reason });
        }
        // A checkpoint that was copied here is of a start that is not known here: each unknown start is taken to go on from all of the one before it.
        while starts.last() < from.start {
            starts.from.push(StepOfStart { start: starts.last(), step: u64::MAX });
        }
        starts.from.push(from);
        starts.write(run_dir)?;
        Ok(starts.last())
    }

    /// Notes of which step the weights file of a run directory is; `None` before it is written.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn note_weights(run_dir: &Path, weights: Option<StepOfStart>) -> Result<(), CheckpointError> {
        let starts = Self::read(run_dir)?;
        if starts.weights == weights {
            return Ok(());
        }
        Self { weights, ..starts }.write(run_dir)
    }

    /// Marks a run directory as one whose run is being removed: from here on nothing of it is read.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn mark_removal(run_dir: &Path) -> Result<(), CheckpointError> {
        Self { is_being_removed: true, ..Self::default() }.write(run_dir)
    }

    /// Whether the run of the directory is being removed, since another replaces it.
    pub fn is_being_removed(&self) -> bool {
        self.is_being_removed
    }

    /// The number of the last start; 0 if none is known.
    pub fn last(&self) -> u64 {
        self.from.len() as u64
    }

    /// The step of the weights file, if that is known and the run has left it for an earlier one.
    pub fn left_weights(&self) -> Option<u64> {
        self.weights.filter(|&weights| !self.includes(weights)).map(|weights| weights.step)
    }

    /// Whether a step belongs to the run as its last start goes on with it; false for a step of a branch that was left.
    pub fn includes(&self, of: StepOfStart) -> bool {
        // From the last start back: of each, only steps until the one from which the next went on.
        let (mut start, mut until) = (self.last(), u64::MAX);
        // A file without starts says nothing of what an earlier version wrote.
        if start == 0 {
            return true;
        }
        loop {
            if of.start == start {
                return of.step <= until;
            }
            let Some(before) = start.checked_sub(1) else { return false };
            let from = self.from[before as usize];
            (start, until) = (from.start, from.step);
        }
    }

    fn write(&self, run_dir: &Path) -> Result<(), CheckpointError> {
        let path = run_dir.join(Self::FILE);
        let io = CheckpointError::io(&path);
        let written = Self { version: Self::VERSION, ..self.clone() };
        let text = serde_json::to_string_pretty(&written).expect("it has string keys and finite depth");
        // Only who has the lock of the directory writes it: what is there was left by one who was killed.
        PartialFile::remove_leftover(&path).map_err(&io)?;
        let file = PartialFile::create(&path, Existing::Replaced).map_err(&io)?;
        file.finish_with(text).map_err(&io)
    }

    /// Removes the file, as the last of a run that is removed.
    ///
    /// # Errors
    /// The error of the system.
    pub fn remove(run_dir: &Path) -> io::Result<()> {
        let path = run_dir.join(Self::FILE);
        PartialFile::remove_leftover(&path)?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => folder::sync(run_dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, step: u64) -> StepOfStart {
        StepOfStart { start, step }
    }

    #[test]
    fn steps_of_a_branch_that_was_left_are_not_of_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let has = |of| Starts::read(path).unwrap().includes(of);
        // A directory of an earlier version: whatever it holds is of the run.
        assert!(has(at(0, 9)));
        assert_eq!(Starts::add(path, at(0, 0)).unwrap(), 1);
        assert!(has(at(1, 8)) && has(at(0, 0)) && !has(at(0, 9)));
        // From step 2 on once more, killed, and again.
        assert_eq!(Starts::add(path, at(1, 2)).unwrap(), 2);
        assert!(has(at(1, 2)) && !has(at(1, 4)) && has(at(2, 4)));
        assert_eq!(Starts::add(path, at(1, 2)).unwrap(), 3);
        assert!(has(at(1, 2)) && !has(at(2, 4)) && has(at(3, 4)));
        // Back to the branch that was left.
        assert_eq!(Starts::add(path, at(1, 8)).unwrap(), 4);
        assert!(has(at(1, 8)) && !has(at(1, 9)) && !has(at(3, 4)) && has(at(4, 10)));
        Starts::note_weights(path, Some(at(4, 10))).unwrap();
        assert_eq!(Starts::read(path).unwrap().left_weights(), None);
        Starts::add(path, at(1, 6)).unwrap();
        assert_eq!(Starts::read(path).unwrap().left_weights(), Some(10));
    }

    #[test]
    fn a_run_goes_on_from_a_checkpoint_that_was_copied_from_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Starts::add(folder.path(), at(3, 8)).unwrap(), 4);
        let starts = Starts::read(folder.path()).unwrap();
        assert!(
            starts.includes(at(3, 8))
                && starts.includes(at(4, 9))
                && starts.includes(at(2, 1))
                && !starts.includes(at(3, 9))
        );
        let error = Starts::add(folder.path(), at(1 << 40, 8)).unwrap_err();
        assert!(matches!(error, CheckpointError::Starts { .. }), "{error:?}");
    }

    #[test]
    fn a_file_that_no_run_wrote_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(Starts::FILE);
        for text in [
            "",
            "[]",
            r#"{"version":2,"is_being_removed":false,"from":[],"weights":null}"#,
            r#"{"version":1,"is_being_removed":false,"from":[{"start":1,"step":2}],"weights":null}"#,
            r#"{"version":1,"is_being_removed":false,"from":[{"start":0,"step":-2}],"weights":null}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Starts::read(folder.path()).unwrap_err();
            assert!(matches!(error, CheckpointError::Starts { .. }), "{error:?}");
        }
    }
}
