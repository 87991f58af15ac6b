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
    /// [`io::ErrorKind::AlreadyExists`] if there is one that is to be kept; else what the system says.
    pub(crate) fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        // Not `exists`, which calls a link free whose target is gone.
        if existing == Existing::Kept && fs::symlink_metadata(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file already"));
        }
        let mut partial = path.to_owned().into_os_string();
        partial.push(Self::ENDING);
        let partial = PathBuf::from(partial);
        Ok(Self { path: path.to_owned(), file: File::create(&partial)?, partial })
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
