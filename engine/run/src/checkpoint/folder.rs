//! The folder of a run's checkpoints: how one gets its name, which ones there are, and which are kept.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pipezero_files::folder;
use pipezero_files::input::read_bytes;

use super::error::CheckpointError;
use super::folder_name::{folder_name, step_of};
use super::foreign::{System, system_of};
use super::manifest::Manifest;
use super::reader::CheckpointReader;

/// The checkpoints of a run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    path: PathBuf,
    /// How many stay when another is complete.
    num_kept: usize,
    /// Steps of checkpoints that the run did not go on from, damaged ones for example: they go when another is complete.
    superseded: Vec<u64>,
    /// The step of one that stays, however many are newer.
    protected: Option<u64>,
    /// Whether the run directory was there: if it has been removed, it is not made again.
    run_dir_is_there: bool,
}

/// A checkpoint that is being written, under another name than it will have.
#[derive(Clone, Debug)]
pub struct NewCheckpoint {
    checkpoints: Checkpoints,
    step: u64,
}

impl Checkpoints {
    /// The name of the folder in a run directory.
    pub const NAME: &str = "checkpoints";
    /// The ending of a checkpoint's name while it is being written.
    const PARTIAL: &str = ".partial";
    /// The ending of its name while it is being removed.
    const REMOVED: &str = ".removed";

    /// The name of the sign in a folder that is being written.
    const SIGN: &str = "sign";
    /// Bytes of a sign at most.
    const SIGN_BYTES_MAX: u64 = 4096;

    /// Those of a run directory; the folder need not be there.
    pub fn of_run(run_dir: &Path) -> Self {
        Self {
            path: run_dir.join(Self::NAME),
            num_kept: usize::MAX,
            superseded: Vec::new(),
            protected: None,
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
        let steps = checkpoints.steps()?;
        let found = steps.iter().rev().find(|&&found| step.is_none_or(|step| step == found));
        match found {
            Some(&step) => Ok(checkpoints.at(step)),
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

    /// Steps after which there are complete checkpoints, in order.
    pub fn steps(&self) -> Result<Vec<u64>, CheckpointError> {
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

    /// The newest checkpoint before a step whose manifest and headers are sound; why newer ones are not is added to `refused`.
    pub fn newest_before(
        &self,
        step: u64,
        refused: &mut Vec<CheckpointError>,
    ) -> Result<Option<CheckpointReader>, CheckpointError> {
        for step in self.steps()?.into_iter().rev().filter(|&found| found < step) {
            match CheckpointReader::open(&self.at(step)) {
                Ok(reader) => return Ok(Some(reader)),
                Err(error) if error.is_damage() => refused.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Starts the checkpoint after a step; what earlier runs left unfinished is removed. A sign in its folder shows other processes whether
    /// they see it.
    pub fn start(&self, step: u64, sign: Option<&str>) -> Result<NewCheckpoint, CheckpointError> {
        folder::followed(&self.path).map_err(CheckpointError::io(&self.path))?;
        self.remove_leftovers()?;
        let new = NewCheckpoint { checkpoints: self.clone(), step };
        let folder = self.partial(step);
        let made = match self.run_dir_is_there {
            true if sign.is_none() => fs::create_dir(&self.path),
            // Or this process has no such directory yet, and another has.
            _ => fs::create_dir_all(&self.path),
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(CheckpointError::io(&self.path))?,
        }
        let made = fs::create_dir(&folder)
            .and_then(|()| sign.map_or(Ok(()), |sign| write_new(&folder.join(Self::SIGN), sign)));
        made.map_err(CheckpointError::io(&folder))?;
        Ok(new)
    }

    /// Whether this process sees the folder of the checkpoint after a step in which this sign is.
    pub(crate) fn has_sign(&self, step: u64, sign: &str) -> Result<bool, CheckpointError> {
        let path = self.partial(step).join(Self::SIGN);
        match read_bytes(&path, Self::SIGN_BYTES_MAX) {
            Ok(found) => Ok(found == sign.as_bytes()),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(CheckpointError::io(&path)(io::Error::other(error))),
        }
    }

    fn remove_leftovers(&self) -> Result<(), CheckpointError> {
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
    fn remove_oldest(&self, new: u64) -> Result<(), CheckpointError> {
        let is_superseded = |&step: &u64| step != new && self.superseded.contains(&step);
        let (superseded, steps): (Vec<_>, Vec<_>) = self.steps()?.into_iter().partition(is_superseded);
        let old = superseded.iter().chain(steps.iter().rev().skip(self.num_kept).rev());
        let old = old.filter(|&&step| step != new && self.protected != Some(step));
        // One that cannot be removed keeps no other.
        let removed: Vec<_> = old.map(|&step| self.remove(step)).collect();
        removed.into_iter().collect()
    }

    /// Takes the name away first, so that no half of a checkpoint has it.
    fn remove(&self, step: u64) -> Result<(), CheckpointError> {
        let path = self.at(step);
        let removed = with_ending(&path, Self::REMOVED);
        fs::rename(&path, &removed).map_err(CheckpointError::io(&path))?;
        folder::remove_itself(&removed).map_err(CheckpointError::io(&removed))
    }
}

impl NewCheckpoint {
    /// Removes what has been written, as far as it can be.
    pub fn abandon(self) {
        let _ = fs::remove_dir_all(self.checkpoints.partial(self.step));
    }

    /// Completes it and removes the oldest.
    pub fn finish(self, manifest: &Manifest) -> Result<(), CheckpointError> {
        self.write_manifest(manifest)?;
        self.give_name()?;
        self.remove_oldest()
    }

    /// Writes the manifest, and returns once all of the folder is on disk.
    pub(crate) fn write_manifest(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let folder = self.checkpoints.partial(self.step);
        let sign = folder.join(Checkpoints::SIGN);
        if sign.exists() {
            fs::remove_file(&sign).map_err(CheckpointError::io(&sign))?;
        }
        let path = folder.join(Manifest::FILE);
        let written = File::create_new(&path).and_then(|mut file| {
            io::Write::write_all(&mut file, manifest.text().as_bytes())?;
            file.sync_all()
        });
        written.map_err(CheckpointError::io(&path))?;
        sync_folder(&folder)
    }

    /// Gives the folder its name.
    pub(crate) fn give_name(&self) -> Result<(), CheckpointError> {
        let (folder, place) = (self.checkpoints.partial(self.step), self.checkpoints.at(self.step));
        // One of the same step is damaged, or could not be completed everywhere, or the run would not have come here once more.
        if fs::symlink_metadata(&place).is_ok() {
            self.checkpoints.remove(self.step)?;
        }
        fs::rename(&folder, &place).map_err(CheckpointError::io(&place))?;
        sync_folder(&self.checkpoints.path)
    }

    /// Takes the name away again, and removes the folder, as far as that can be.
    pub(crate) fn take_name_away(self) {
        let _ = self.checkpoints.remove(self.step);
        self.abandon();
    }

    /// Removes the oldest of more checkpoints than are to stay.
    pub(crate) fn remove_oldest(&self) -> Result<(), CheckpointError> {
        self.checkpoints
            .remove_oldest(self.step)
            .map_err(|error| CheckpointError::NotRemoved(Box::new(error)))
    }
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    io::Write::write_all(&mut File::create_new(path)?, text.as_bytes())
}

pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Names in a folder are on disk only once the folder is.
fn sync_folder(path: &Path) -> Result<(), CheckpointError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(CheckpointError::io(path))
}
