//! Reading files that users name: only regular files, whole, up to a size limit.
//!
//! A device may never end, and a pipe may never begin: reading one would wait, or fill the memory. So a file is opened without waiting
//! and its kind is checked before anything is read. It is read up to the length that it had then: another program may be adding to it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::folder::leads_out;
use crate::opened::look;

/// Why a file was not read. The caller adds its path and the repair.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a folder, a device or a pipe.
    #[error("it is {what}, and only regular files of at most {max_bytes} bytes are read")]
    NotRegular {
        /// What it is, with its article.
        what: &'static str,
        /// Bytes that are read at most.
        max_bytes: u64,
    },
    /// It is a link that leads out of its folder.
    #[error("it is a link to {}, outside of its folder, and only files of the folder are copied; put a copy in its place, or remove it", .0.display())]
    LeadsOut(PathBuf),
    /// It is larger than any file of its kind.
    #[error("it has {num_bytes} bytes or more, and at most {max_bytes} are read")]
    TooLarge {
        /// Bytes that it has, as far as they were counted.
        num_bytes: u64,
        /// Bytes that are read at most.
        max_bytes: u64,
    },
    /// It is not text.
    #[error("it is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// The first byte that is not part of a character, counted from 0.
        offset: usize,
    },
}

impl InputError {
    /// Whether there is no file of that name.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Whether something else than a regular file has the name, or than a link to one: to open a pipe would wait for whoever writes it.
pub fn is_not_regular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// Reads the text of a regular file of at most `max_bytes`.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String, InputError> {
    text_from(read_bytes(path, max_bytes)?)
}

/// Reads the text of a file of a folder that somebody else may have made, in order to copy it. A link in such a folder could lead to a file that
/// its maker cannot read, and the copy would be handed on.
pub fn read_text_of_folder(path: &Path, max_bytes: u64) -> Result<String, InputError> {
    check_is_of_folder(path)?;
    read_text(path, max_bytes)
}

/// Refuses a link that leads out of its folder.
///
/// # Errors
/// [`InputError::LeadsOut`]; else the error of the system.
pub fn check_is_of_folder(path: &Path) -> Result<(), InputError> {
    match leads_out(path)? {
        Some(target) => Err(InputError::LeadsOut(target)),
        None => Ok(()),
    }
}

/// Reads the bytes of a regular file of at most `max_bytes`.
pub fn read_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>, InputError> {
    // Some file systems in user space do not say how long a file is.
    const UNKNOWN_MAX: u64 = 16 << 20;
    let file = look(path)?.map_err(|what| InputError::NotRegular { what, max_bytes })?;
    match file.metadata()?.len() {
        num_bytes if num_bytes > max_bytes => Err(InputError::TooLarge { num_bytes, max_bytes }),
        0 => bytes_of(file, max_bytes.min(UNKNOWN_MAX)),
        num_bytes => {
            let mut bytes = Vec::new();
            file.take(num_bytes).read_to_end(&mut bytes)?;
            Ok(bytes)
        }
    }
}

/// The path by which messages and new files are named: `stdin` where the input is `-`.
pub fn named(path: &Path) -> &Path {
    if is_stdio(path) { Path::new("stdin") } else { path }
}

/// Whether a path stands for stdin.
pub fn is_stdio(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads stdin to its end, as text of at most `max_bytes`.
pub fn read_stdin(max_bytes: u64) -> Result<String, InputError> {
    text_from(bytes_of(io::stdin().lock(), max_bytes)?)
}

fn bytes_of(from: impl Read, max_bytes: u64) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    from.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        num_bytes if num_bytes > max_bytes => Err(InputError::TooLarge { num_bytes, max_bytes }),
        _ => Ok(bytes),
    }
}

fn text_from(bytes: Vec<u8>) -> Result<String, InputError> {
    String::from_utf8(bytes).map_err(|error| InputError::NotUtf8 { offset: error.utf8_error().valid_up_to() })
}

/// A text without the byte order mark that some editors write at its beginning, to say that it is UTF-8.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        let error = read_text(&path, 3).unwrap_err();
        assert!(matches!(error, InputError::TooLarge { num_bytes: 4, max_bytes: 3 }), "{error:?}");
        fs::write(&path, [b'a', 0xff]).unwrap();
        let error = read_text(&path, 4).unwrap_err();
        assert!(matches!(error, InputError::NotUtf8 { offset: 1 }), "{error:?}");
        assert!(read_text(&folder.path().join("b.json"), 4).unwrap_err().is_missing());
        let error = read_text(folder.path(), 4).unwrap_err();
        assert!(matches!(error, InputError::NotRegular { what: "a folder", .. }), "{error:?}");
    }

    /// A reader that never ends, as stdin may be.
    #[test]
    fn bytes_are_counted_while_they_are_read() {
        assert_eq!(bytes_of(&b"four"[..], 4).unwrap(), b"four");
        let error = bytes_of(io::repeat(b'x'), 16).unwrap_err();
        assert!(matches!(error, InputError::TooLarge { num_bytes: 17, max_bytes: 16 }), "{error:?}");
    }

    /// Opening the pipe would wait for a writer, reading the device for its end.
    #[test]
    fn devices_and_pipes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, expected) in [
            (pipe.as_path(), "a pipe"),
            (Path::new("/dev/zero"), "a device"),
            (Path::new("/proc/self/status"), "a file of the kernel"),
        ] {
            let error = read_text(path, 1 << 20).unwrap_err();
            assert!(matches!(error, InputError::NotRegular { what, .. } if what == expected), "{error:?}");
        }
    }
}
