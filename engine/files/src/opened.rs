//! Opening files without waiting, and without following a link where the program writes.
//!
//! To open a pipe for reading would wait for its writer, and some devices never end. So a file is opened without waiting, and its type
//! is taken from the open handle: between a look at the name and the opening, somebody could put something else there.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstatfs, openat};

/// Flags of every opening. Regular files on a disk ignore `NONBLOCK`; a file of the kernel answers with an error instead of waiting.
const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Permissions of a new file, of which the user's umask takes away some.
pub(crate) const NEW_FILE: Mode =
    Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

/// Opens a regular file to read it; a link is followed.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for anything but a regular file of a disk, at once; else the error of the system.
pub fn open_regular(path: &Path) -> io::Result<File> {
    look(path)?.map_err(|what| {
        let error = format!("it is {what}, and only regular files are read");
        io::Error::new(ErrorKind::InvalidInput, error)
    })
}

/// Opens a file to read it if it is a regular one; else says what it is.
pub(crate) fn look(path: &Path) -> io::Result<Result<File, &'static str>> {
    // Opening some devices does something.
    let found = fs::metadata(path)?.file_type();
    if !found.is_file() {
        return Ok(Err(kind_of(found)));
    }
    let file = File::from(openat(CWD, path, ALWAYS | OFlags::RDONLY, Mode::empty())?);
    let found = file.metadata()?.file_type();
    Ok(match found.is_file() {
        false => Err(kind_of(found)),
        true if is_of_kernel(&file) => Err("a file of the kernel"),
        true => Ok(file),
    })
}

/// How a file of the program's own is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// To read and write it where it is, with what it has.
    Kept,
    /// To add to its end.
    AddedTo,
    /// To write it from its beginning, without what it had.
    Emptied,
}

/// Opens a file that the program writes in place, such as a log, and makes it where there is none.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a link, for anything but a regular file, and for a file that has another name too, since that
/// name may be somebody else's file; else the error of the system. Nothing is changed then.
pub fn open_own(path: &Path, how: Own) -> io::Result<File> {
    let access = match how {
        Own::AddedTo => OFlags::WRONLY | OFlags::APPEND,
        Own::Kept | Own::Emptied => OFlags::RDWR,
    };
    let opened = openat(CWD, path, ALWAYS | OFlags::NOFOLLOW | OFlags::CREATE | access, NEW_FILE);
    let file = File::from(opened.map_err(|error| match error {
        rustix::io::Errno::LOOP => refused("a link"),
        // A pipe that nobody reads, or a socket.
        rustix::io::Errno::NXIO => refused("a pipe or a socket"),
        error => error.into(),
    })?);
    check_own(&file.metadata()?)?;
    if how == Own::Emptied {
        file.set_len(0)?;
    }
    Ok(file)
}

/// The kind of a file that is not regular, in words.
pub fn kind_of(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if found.is_dir() {
        "a folder"
    } else if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else if found.is_symlink() {
        "a link"
    } else {
        "a device"
    }
}

fn check_own(found: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    match found.is_file() {
        false => Err(refused(kind_of(found.file_type()))),
        true if found.nlink() > 1 => Err(refused("a file with a second name (a hard link)")),
        true => Ok(()),
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidInput,
        format!(
            "it is {what}, and the program writes only to a regular file that has no other name; remove it"
        ),
    )
}

/// Whether a file is one that the kernel makes while it is read, as those in /proc and /sys: some wait, some never end, and none has
/// a length.
fn is_of_kernel(file: &File) -> bool {
    /// Linux's numbers of procfs, sysfs, debugfs, tracefs, securityfs and the two of control groups (linux/magic.h).
    const KERNEL: [u64; 7] =
        [0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0x0027_e0eb, 0x6367_7270];
    fstatfs(file).is_ok_and(|found| KERNEL.contains(&(found.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    /// What is no regular file, each with words of its error: none is waited for.
    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        let link = folder.path().join("link");
        symlink("/dev/zero", &link).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a pipe"),
            (Path::new("/dev/zero"), "a device"),
            (&link, "a device"),
            (folder.path(), "a folder"),
            (Path::new("/proc/self/status"), "a file of the kernel"),
            (&folder.path().join("socket"), "a socket"),
        ] {
            let error = open_regular(path).unwrap_err();
            assert!(error.to_string().contains(what), "{}: {error}", path.display());
        }
        assert_eq!(open_regular(Path::new("/proc/no/such")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_opened_for_writing_only_where_it_has_this_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [own, target, link, hard, pipe] =
            ["own", "target", "link", "hard", "pipe"].map(|name| folder.path().join(name));
        fs::write(&target, "a thesis").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&target, &link).unwrap();
        fs::hard_link(&target, &hard).unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for how in [Own::Kept, Own::AddedTo, Own::Emptied] {
            for (path, what) in [(&link, "a link"), (&hard, "a hard link"), (&pipe, "regular file")] {
                let error = open_own(path, how).unwrap_err();
                assert!(error.to_string().contains(what), "{}, {how:?}: {error}", path.display());
            }
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "a thesis");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        use std::io::Write;
        for (how, expected) in
            [(Own::AddedTo, "a"), (Own::AddedTo, "aa"), (Own::Kept, "aa"), (Own::Emptied, "a")]
        {
            open_own(&own, how).unwrap().write_all(b"a").unwrap();
            assert_eq!(fs::read_to_string(&own).unwrap(), expected, "{how:?}");
        }
    }
}
