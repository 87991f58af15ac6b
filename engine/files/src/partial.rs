//! Writing a file so that it appears under its name only when it is complete.
//!
//! It is written under another name in the same folder and renamed at the end: a reader never sees a part of it, and a failure leaves an
//! earlier file as it was. If the name is a link, the link is replaced and what it leads to is not changed. The folder is opened once, and
//! both names are names in it: whoever puts another folder or a link in its place meanwhile changes nothing.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, renameat, unlinkat};

use crate::folder::{parent_of, sync_open};
use crate::opened::{NEW_FILE, kind_of, open_regular};

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
    folder: OwnedFd,
    name: OsString,
    partial: OsString,
    file: File,
    is_finished: bool,
}

impl PartialFile {
    /// The ending of its name while it is being written.
    pub const ENDING: &str = ".partial";

    /// Starts a file of this name. It gets the permissions of a file of the same user that it replaces; else the umask decides.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] if there is one that is to be kept, [`ErrorKind::InvalidInput`] if anything but a regular file
    /// or a link to one would be replaced, [`ErrorKind::ResourceBusy`] if the other name is taken; else the error of the system.
    pub fn create(path: &Path, existing: Existing) -> io::Result<Self> {
        // The link itself, even if its target is gone.
        let earlier = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            found => Some(found?),
        };
        if earlier.is_some() && existing == Existing::Kept {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "the file exists already"));
        }
        if let Some(earlier) = &earlier {
            check_replaceable(path, earlier)?;
        }
        let name =
            path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it has no name"))?;
        let folder = openat(
            CWD,
            parent_of(path),
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let partial = Self::partial_of(Path::new(name)).into_os_string();
        // Made anew: what has the name already is neither followed nor opened.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = openat(&folder, &partial, flags, NEW_FILE);
        let file = File::from(opened.map_err(|error| match error {
            rustix::io::Errno::EXIST => taken(&Self::partial_of(path)),
            error => error.into(),
        })?);
        let partial = Self { folder, name: name.to_owned(), partial, file, is_finished: false };
        partial.take_permissions(earlier.as_ref())?;
        Ok(partial)
    }

    /// A file that its user has closed to others stays closed.
    fn take_permissions(&self, earlier: Option<&Metadata>) -> io::Result<()> {
        let own = self.file.metadata()?;
        match earlier.filter(|earlier| earlier.is_file() && earlier.uid() == own.uid()) {
            Some(earlier) if earlier.mode() & 0o777 != own.mode() & 0o777 => {
                self.file.set_permissions(fs::Permissions::from_mode(earlier.mode() & 0o777))
            }
            _ => Ok(()),
        }
    }

    /// Removes what a process that was ended while it wrote a file of this name has left; no other may be writing it.
    ///
    /// # Errors
    /// The error of the system.
    pub fn remove_leftover(path: &Path) -> io::Result<()> {
        match fs::remove_file(Self::partial_of(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
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

    /// Renames the complete file, once it is on disk, and returns once its name is there too.
    ///
    /// # Errors
    /// The error of the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        renameat(&self.folder, &self.partial, &self.folder, &self.name)?;
        self.is_finished = true;
        sync_open(&self.folder)
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

/// Copies a regular file, which is not a link, to another name.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if it is anything else; as [`PartialFile::create`]; else the error of the system.
pub fn copy(from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_symlink() {
        let error =
            format!("{} is a link, and only files are copied; put a copy in its place", from.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, error));
    }
    let mut source = open_regular(from)?;
    let mut copied = PartialFile::create(to, existing)?;
    io::copy(&mut source, copied.file())?;
    copied.finish()
}

/// Checks that [`PartialFile::create`] could replace what has a name, so that hours of work do not end with this error.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if anything but a regular file or a link to one has the name.
pub fn can_be_replaced(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(earlier) => check_replaceable(path, &earlier),
        // A name that cannot be looked up is reported by the code that uses it.
        Err(_) => Ok(()),
    }
}

/// Refuses to replace what is no regular file. A link is replaced itself, but not one to a device or a pipe, or into /proc, as /dev/stdout
/// is: the system needs those.
fn check_replaceable(path: &Path, earlier: &Metadata) -> io::Result<()> {
    let target = if earlier.is_symlink() { fs::metadata(path).ok() } else { Some(earlier.clone()) };
    let what = match target.filter(|target| !target.is_file()) {
        Some(target) if !(earlier.is_symlink() && target.is_dir()) => kind_of(target.file_type()),
        _ if fs::read_link(path).is_ok_and(|target| target.starts_with("/proc")) => "a link of the system",
        _ => return Ok(()),
    };
    let error = format!("it is {what}, and only a regular file can be replaced");
    Err(io::Error::new(ErrorKind::InvalidInput, error))
}

/// The error if the other name is taken: another process may be writing, or one was ended while it wrote.
fn taken(partial: &Path) -> io::Error {
    let error = format!(
        "it is written as {} first, which exists: wait if another process is writing it, else remove it",
        partial.display()
    );
    io::Error::new(ErrorKind::ResourceBusy, error)
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = unlinkat(&self.folder, &self.partial, AtFlags::empty());
        }
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

    #[test]
    fn a_link_is_replaced_and_its_target_is_not() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let [target, link, nowhere, hard] =
            ["target", "link", "nowhere", "hard"].map(|name| folder.path().join(name));
        fs::write(&target, "a thesis").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&target, &link).unwrap();
        symlink(folder.path().join("missing"), &nowhere).unwrap();
        fs::hard_link(&target, &hard).unwrap();
        let to_folder = folder.path().join("to-folder");
        symlink(folder.path(), &to_folder).unwrap();
        for path in [&link, &nowhere, &hard, &to_folder] {
            PartialFile::create(path, Existing::Replaced).unwrap().finish_with("new").unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_file(), "{}", path.display());
            assert_eq!(fs::read_to_string(path).unwrap(), "new");
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "a thesis");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!folder.path().join("missing").exists());
    }

    #[test]
    fn what_is_no_file_is_not_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let [null, stdout] = ["null", "stdout"].map(|name| folder.path().join(name));
        symlink("/dev/null", &null).unwrap();
        symlink("/proc/self/fd/1", &stdout).unwrap();
        for path in [Path::new("/dev/null"), &null, &stdout, folder.path()] {
            let error = PartialFile::create(path, Existing::Replaced).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", path.display());
            assert!(can_be_replaced(path).is_err(), "{}", path.display());
        }
    }

    /// Its user may have closed a file to others, since it holds a secret.
    #[test]
    fn a_file_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for mode in [0o600, 0o640] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            PartialFile::create(&path, Existing::Replaced).unwrap().finish_with("new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
    }

    /// Somebody puts a link in the place of the folder while a file is written in it.
    #[test]
    fn the_folder_stays_the_one_in_which_it_began() {
        let home = tempfile::tempdir().unwrap();
        let [own, moved, other] = ["own", "moved", "other"].map(|name| home.path().join(name));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("a.json"), "a thesis").unwrap();
        let file = PartialFile::create(&own.join("a.json"), Existing::Replaced).unwrap();
        fs::rename(&own, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &own).unwrap();
        file.finish_with("new").unwrap();
        assert_eq!(fs::read_to_string(moved.join("a.json")).unwrap(), "new");
        assert_eq!(fs::read_to_string(other.join("a.json")).unwrap(), "a thesis");
        assert_eq!(names(&other), ["a.json"]);
    }

    #[test]
    fn an_existing_partial_file_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, partial) = (folder.path().join("a.json"), folder.path().join("a.json.partial"));
        fs::write(&partial, "mine").unwrap();
        let error = PartialFile::create(&path, Existing::Kept).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
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
        assert_eq!(kept.kind(), ErrorKind::AlreadyExists);
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
