//! The file of `--out`: written when all of it is known, and never over a file that the command did not write itself.

use std::io;
use std::path::{Path, PathBuf};

use pipezero_files::partial::{Existing, PartialFile};

/// A kind of file that a command writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// What such a file is called, in error messages.
    pub(super) name: &'static str,
    /// The command that writes it.
    pub(super) writer: &'static str,
    /// A name that a user might choose.
    pub(super) example: &'static str,
    /// Whether an existing file is of this kind.
    pub(super) is_such: fn(&Path) -> bool,
}

/// A file that can be written, as far as could be checked; it does not exist yet.
#[derive(Debug)]
pub(super) struct OutFile {
    path: PathBuf,
    existing: Existing,
}

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutError {
    /// The file exists already.
    #[error("{} already exists: name another file with --out, or replace it with --overwrite", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The name is that of a folder.
    #[error("{} is a folder: name a file with --out, such as {}", path.display(), path.join(example).display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// A file in it.
        example: &'static str,
    },
    /// `--overwrite` would replace a file of another kind.
    #[error(
        "{} is not a {}: --overwrite only replaces one that `pipezero {}` wrote; name another file with --out, or remove this one yourself",
        path.display(),
        written.name,
        written.writer
    )]
    UnknownFile {
        /// The file.
        path: PathBuf,
        /// What it would have to be.
        written: Written,
    },
    /// The file is of another kind, in a place where only a file of this kind is replaced.
    #[error("{} is not a {}, and nothing else is replaced: name another file with --out, or remove this one yourself", path.display(), written.name)]
    NotOwn {
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
    /// Checks that the file can be written, before minutes are spent on its contents; only a file of the same kind is replaced.
    ///
    /// # Errors
    /// [`OutError`] if it cannot.
    pub(super) fn new(path: &Path, existing: Existing, written: Written) -> Result<Self, OutError> {
        if path.is_dir() {
            return Err(OutError::Folder { path: path.to_owned(), example: written.example });
        }
        if existing == Existing::Replaced && path.is_file() && !(written.is_such)(path) {
            return Err(OutError::UnknownFile { path: path.to_owned(), written });
        }
        let file = Self { path: path.to_owned(), existing };
        // Dropped before it is finished, the partial file leaves nothing behind, however the command ends.
        drop(file.begin()?);
        Ok(file)
    }

    /// As [`OutFile::new`], for a command that replaces what it wrote before unasked.
    ///
    /// # Errors
    /// [`OutError`] if it cannot.
    pub(super) fn replacing_own(path: &Path, written: Written) -> Result<Self, OutError> {
        Self::new(path, Existing::Replaced, written).map_err(|error| match error {
            OutError::UnknownFile { path, written } => OutError::NotOwn { path, written },
            error => error,
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`OutError`] if it can no longer be written.
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

    fn file(path: &Path, existing: Existing) -> Result<OutFile, OutError> {
        let is_such = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.starts_with("ours"));
        let written = Written { name: "file of ours", writer: "test", example: "a.txt", is_such };
        OutFile::new(path, existing, written)
    }

    #[test]
    fn the_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let out = file(&path, Existing::Kept).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        out.write("ours").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_files_of_the_same_kind_are_replaced_and_only_if_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "ours, old").unwrap();
        assert!(matches!(file(&path, Existing::Kept), Err(OutError::Exists { .. })));
        file(&path, Existing::Replaced).unwrap().write("ours, new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours, new");
        fs::write(&path, "a thesis").unwrap();
        assert!(matches!(file(&path, Existing::Replaced), Err(OutError::UnknownFile { .. })));
        assert!(matches!(file(folder.path(), Existing::Replaced), Err(OutError::Folder { .. })));
        assert!(matches!(file(&path.join("b"), Existing::Replaced), Err(OutError::Io { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a thesis");
    }

    /// A file that somebody else created meanwhile stays.
    #[test]
    fn a_file_that_appeared_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        let out = file(&path, Existing::Kept).unwrap();
        fs::write(&path, "a thesis").unwrap();
        assert!(matches!(out.write("ours"), Err(OutError::Exists { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "a thesis");
    }
}
