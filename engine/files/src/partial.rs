//! Writing a file so that it appears under its name only when it is complete.
//!
//! It is written under another name and renamed at the end: a reader never sees a part of it, and a failure leaves an earlier
//! file as it was.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What happens to an existing file of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is kept, and nothing is written.
    Kept,
    /// It is replaced when the new one is complete.
    Replaced,
}

impl Existing {
    /// What `--overwrite` asks for.
    pub fn of(overwrite: bool) -> Self {
        if overwrite { Self::Replaced } else { Self::Kept }
    }
}

/// A file that is being written; if it is dropped before it is complete, nothing is left of it.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl PartialFile {
    /// The ending of its name while it is being written.
    pub const ENDING: &str = ".partial";

    /// Starts a file of this name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is one that is to be kept, [`io::ErrorKind::InvalidInput`] if a device or a pipe
    /// would be replaced, [`io::ErrorKind::ResourceBusy`] if the other name is taken; else the error of the system. If the name
    /// is a link, its target is replaced.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        // Not `exists`, which is false for a link whose target is gone.
        if existing == Existing::Kept && fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists already"));
        }
        let path = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let error = "it is not a regular file, and only a regular file can be replaced";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let partial = Self::partial_of(&path);
        let file = File::create_new(&partial).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(&partial),
            _ => error,
        })?;
        Ok(Self { path, file, partial })
    }

    /// Removes what a process that was ended while it wrote a file of this name has left; no other may be writing it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn remove_leftover(path: &Path) -> io::Result<()> {
        match fs::remove_file(Self::partial_of(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Its name while it is being written.
    pub fn partial_of(path: &Path) -> PathBuf {
        let mut partial = path.as_os_str().to_owned();
        partial.push(Self::ENDING);
        partial.into()
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Renames the complete file, once it is on disk; then its new name is on disk too.
    ///
    /// # Errors
    /// The error of the system.
    pub fn finish(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.partial, &self.path)?;
        sync_folder(
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        )
    }

    /// Writes all contents, and renames the complete file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn finish_with(mut self, contents: impl AsRef<[u8]>) -> io::Result<()> {
        self.file.write_all(contents.as_ref())?;
        self.finish()
    }
}

/// Returns once the names in a folder are on disk, as they are only then. File systems that cannot do so for a folder are left as they are.
///
/// # Errors
/// The error of the system.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        synced => synced,
    }
}

/// The error if the other name is taken: another process may be writing, or one was ended while it wrote.
fn taken(partial: &Path) -> io::Error {
    let error = format!(
        "it is written as {} first, which exists: wait if another process is writing it, else remove it",
        partial.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, error)
}

impl Drop for PartialFile {
    /// Nothing is left to remove after the file was renamed.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let mut file = PartialFile::create(&path, Existing::Kept).unwrap();
        file.file().write_all(b"half ").unwrap();
        assert_eq!(names(folder.path()), ["a.json.partial"]);
        file.finish_with("and half").unwrap();
        assert_eq!(names(folder.path()), ["a.json"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "half and half");
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_replaced_and_links_stay_links() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let device = PartialFile::create(Path::new("/dev/null"), Existing::Replaced).unwrap_err();
        assert_eq!(device.kind(), io::ErrorKind::InvalidInput);
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        symlink(&target, &link).unwrap();
        PartialFile::create(&link, Existing::Replaced).unwrap().finish_with("new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        let nowhere = folder.path().join("nowhere");
        symlink(folder.path().join("missing"), &nowhere).unwrap();
        assert_eq!(
            PartialFile::create(&nowhere, Existing::Replaced).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn an_existing_partial_file_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, partial) = (folder.path().join("a.json"), folder.path().join("a.json.partial"));
        fs::write(&partial, "mine").unwrap();
        let error = PartialFile::create(&path, Existing::Kept).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&partial).unwrap().as_str()),
            (vec!["a.json.partial".to_owned()], "mine")
        );
        fs::remove_file(&partial).unwrap();
        let first = PartialFile::create(&path, Existing::Kept).unwrap();
        assert!(PartialFile::create(&path, Existing::Kept).is_err());
        first.finish_with("first").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_the_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "old").unwrap();
        let kept = PartialFile::create(&path, Existing::Kept).unwrap_err();
        assert_eq!(kept.kind(), io::ErrorKind::AlreadyExists);
        drop(PartialFile::create(&path, Existing::Replaced).unwrap());
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec!["a.json".to_owned()], "old".to_owned())
        );
        PartialFile::create(&path, Existing::Replaced).unwrap().finish_with("new").unwrap();
        assert_eq!(
            (names(folder.path()), fs::read_to_string(&path).unwrap()),
            (vec!["a.json".to_owned()], "new".to_owned())
        );
    }
}
