//! What `--out` names: a file that a command writes when all of it is there, and never over what it did not write itself.

use std::io;
use std::path::{Path, PathBuf};

use crate::files::partial::{Existing, PartialFile};

/// What a command writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// What such a file is called.
    pub(super) name: &'static str,
    /// The command.
    pub(super) writer: &'static str,
    /// What a user might name one.
    pub(super) example: &'static str,
    /// Whether a file that is there is one.
    pub(super) is_such: fn(&Path) -> bool,
}

/// Whether `--overwrite` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overwrite {
    /// A file that is there is an error.
    No,
    /// One that the same command has written is replaced.
    Yes,
}

impl Overwrite {
    /// Of the argument.
    pub(super) fn of(is_given: bool) -> Self {
        if is_given { Self::Yes } else { Self::No }
    }
}

/// A file that can be written, as far as that was to be seen; nothing of it is there yet.
#[derive(Debug)]
pub(super) struct OutFile {
    path: PathBuf,
    existing: Existing,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutError {
    /// There is a file already.
    #[error("{} already exists: name another file with --out, or replace it with --overwrite", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// There is something that is no file.
    #[error("{} is a folder: name a file with --out, such as {}", path.display(), path.join(example).display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// A file in it.
        example: &'static str,
    },
    /// What `--overwrite` would replace is something else.
    #[error(
        "{} is no {}: --overwrite replaces what `pipezero {}` has written as one, and nothing else; name another file with --out, or remove this one yourself",
        path.display(),
        written.name,
        written.writer
    )]
    Stranger {
        /// The file.
        path: PathBuf,
        /// What it would have to be.
        written: Written,
    },
    /// The system refused.
    #[error("cannot write {}: {source}; name a file with --out in a folder that can be written to", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OutFile {
    /// Sees whether the file can be written, before minutes are spent on what would go into it.
    ///
    /// # Errors
    /// [`OutError`] where it cannot.
    pub(super) fn new(path: &Path, overwrite: Overwrite, written: Written) -> Result<Self, OutError> {
        if path.is_dir() {
            return Err(OutError::Folder { path: path.to_owned(), example: written.example });
        }
        if overwrite == Overwrite::Yes && path.is_file() && !(written.is_such)(path) {
            return Err(OutError::Stranger { path: path.to_owned(), written });
        }
        let existing = match overwrite {
            Overwrite::No => Existing::Kept,
            Overwrite::Yes => Existing::Replaced,
        };
        let file = Self { path: path.to_owned(), existing };
        // Begun and dropped, it leaves nothing behind, however the command ends.
        drop(file.begin()?);
        Ok(file)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`OutError`] where it cannot be written any more.
    pub(super) fn write(self, text: &str) -> Result<(), OutError> {
        let partial = self.begin()?;
        partial.finish_with(text).map_err(|source| OutError::Io { path: self.path, source })
    }

    fn begin(&self) -> Result<PartialFile, OutError> {
        PartialFile::create(&self.path, self.existing).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => OutError::Exists { path: self.path.clone() },
            _ => OutError::Io { path: self.path.clone(), source },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(path: &Path, overwrite: Overwrite) -> Result<OutFile, OutError> {
        let is_such = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.starts_with("ours"));
        OutFile::new(
            path,
            overwrite,
            Written { name: "file of ours", writer: "test", example: "a.txt", is_such },
        )
    }

    #[test]
    fn nothing_is_there_before_all_of_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let out = file(&path, Overwrite::No).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        out.write("ours").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_what_was_written_here_is_replaced_and_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "ours, old").unwrap();
        assert!(matches!(file(&path, Overwrite::No), Err(OutError::Exists { .. })));
        file(&path, Overwrite::Yes).unwrap().write("ours, new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours, new");
        fs::write(&path, "a thesis").unwrap();
        assert!(matches!(file(&path, Overwrite::Yes), Err(OutError::Stranger { .. })));
        assert!(matches!(file(folder.path(), Overwrite::Yes), Err(OutError::Folder { .. })));
        assert!(matches!(file(&path.join("b"), Overwrite::Yes), Err(OutError::Io { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a thesis");
    }

    /// Somebody else's file that came in the meantime stays.
    #[test]
    fn what_came_in_between_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let out = file(&path, Overwrite::No).unwrap();
        fs::write(&path, "a thesis").unwrap();
        assert!(matches!(out.write("ours"), Err(OutError::Exists { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a thesis");
    }
}
