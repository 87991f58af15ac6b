//! A file that appears under its name only when it is whole.
//!
//! It is written beside that name and moved there at the end, so that whoever finds the name finds all of it, and a failure
//! leaves what was there before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is written.
    Kept,
    /// It is replaced when the new one is whole.
    Replaced,
}

/// A file that is being written; dropped before it is whole, it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl PartialFile {
    /// What its name ends with while it is being written.
    pub(crate) const ENDING: &str = ".partial";

    /// Begins a file of this name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is one that is to be kept, [`io::ErrorKind::InvalidInput`] if what is to be
    /// replaced is a device or a pipe, [`io::ErrorKind::ResourceBusy`] if something has the name beside it already; else what
    /// the system says. Behind a link it is the link's target that is replaced.
    pub(crate) fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        // Not `exists`, which calls a link free whose target is gone.
        if existing == Existing::Kept && fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file already"));
        }
        let path = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_owned() };
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            let error = "it is no regular file, and only such can be replaced";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let mut partial = path.clone().into_os_string();
        partial.push(Self::ENDING);
        let partial = PathBuf::from(partial);
        let file = File::create_new(&partial).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(&partial),
            _ => error,
        })?;
        Ok(Self { path, file, partial })
    }

    /// Where it is written.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish(self) -> io::Result<()> {
        fs::rename(&self.partial, &self.path)
    }

    /// Writes a text, and gives the file its name.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish_with(mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.finish()
    }
}

/// It may be anybody's: another process may be writing, or one was ended while it did.
fn taken(partial: &Path) -> io::Error {
    let error = format!(
        "{} is there, which it is written as first: wait if another process is at it, else remove it",
        partial.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, error)
}

impl Drop for PartialFile {
    /// What was moved to its place is not here any more.
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
    fn a_name_is_that_of_a_whole_file_or_of_none() {
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
    fn what_is_no_file_is_not_replaced_and_a_link_stays_one() {
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

    /// Whether it is another writer's or a person's, nothing of it is lost.
    #[test]
    fn a_partial_file_that_is_there_stays_as_it_is() {
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
    fn what_is_not_finished_leaves_what_was_there() {
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
