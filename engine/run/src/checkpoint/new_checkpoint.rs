//! A checkpoint that is being written: in a folder with the ending `.partial`, which is renamed once all is on disk.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use pipezero_files::folder;
use pipezero_files::input::read_bytes;

use super::error::CheckpointError;
use super::folder::Checkpoints;
use super::manifest::Manifest;

/// A checkpoint that is being written, under another name than it will have.
#[derive(Clone, Debug)]
pub struct NewCheckpoint {
    checkpoints: Checkpoints,
    step: u64,
}

impl Checkpoints {
    /// The name of the sign in a folder that is being written.
    const SIGN: &str = "sign";
    /// Bytes of a sign at most.
    const SIGN_BYTES_MAX: u64 = 4096;

    /// Starts the checkpoint after a step; what earlier runs left unfinished is removed. A sign in its folder shows other processes whether
    /// they see it.
    pub fn start(&self, step: u64, sign: Option<&str>) -> Result<NewCheckpoint, CheckpointError> {
        folder::followed(&self.path).map_err(CheckpointError::io(&self.path))?;
        self.remove_leftovers()?;
        let new = NewCheckpoint { checkpoints: self.clone(), step };
        let folder = self.partial(step);
        let made = match self.run_dir_is_there {
            true if sign.is_none() => fs::create_dir(&self.path),
            // Otherwise another process may have the run directory, and this one not yet.
            _ => fs::create_dir_all(&self.path),
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => {
                made.and_then(|()| folder::sync(self.run_dir())).map_err(CheckpointError::io(&self.path))?
            }
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
        folder::sync(&folder).map_err(CheckpointError::io(&folder))
    }

    /// Gives the folder its name.
    pub(crate) fn give_name(&self) -> Result<(), CheckpointError> {
        let (folder, place) = (self.checkpoints.partial(self.step), self.checkpoints.at(self.step));
        // A checkpoint of this step may exist if it is damaged, of a branch that was left, or not complete on another host; it is replaced.
        if fs::symlink_metadata(&place).is_ok() {
            self.checkpoints.remove(self.step)?;
        }
        fs::rename(&folder, &place).map_err(CheckpointError::io(&place))?;
        let folder = &self.checkpoints.path;
        folder::sync(folder).map_err(CheckpointError::io(folder))
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
