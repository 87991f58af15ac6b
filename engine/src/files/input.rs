//! Files that users name, read whole: regular ones, and no more of them than a bound.
//!
//! A device may never end, and a pipe may never begin: whoever reads one waits, or fills the memory with what is no costs file
//! anyway. So what a path leads to is looked at before it is opened, and what is read is counted: files grow, and the size of
//! some is told as 0.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

/// Why a file was not read. Its path and the repair are added by whoever knows what it was to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It may never end.
    #[error("it is {what}, and only regular files of at most {max_bytes} bytes are read")]
    NotRegular {
        /// What it is, with its article.
        what: &'static str,
        /// Bytes that are read at most.
        max_bytes: u64,
    },
    /// It is no such file, whatever it holds.
    #[error("it has {num_bytes} bytes or more, and at most {max_bytes} are read")]
    TooLarge {
        /// Bytes that there are.
        num_bytes: u64,
        /// Bytes that are read at most.
        max_bytes: u64,
    },
    /// It is no text.
    #[error("it is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// The first byte that is part of no character, counted from 0.
        offset: usize,
    },
}

impl InputError {
    /// Whether there is nothing under the name.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads the text of a regular file of at most so many bytes.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<String, InputError> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(InputError::NotRegular { what: what_is(found.file_type()), max_bytes });
    }
    let mut bytes = Vec::new();
    let too_large = |num_bytes| Err(InputError::TooLarge { num_bytes, max_bytes });
    if found.len() > max_bytes {
        return too_large(found.len());
    }
    File::open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return too_large(bytes.len() as u64);
    }
    String::from_utf8(bytes).map_err(|error| InputError::NotUtf8 { offset: error.utf8_error().valid_up_to() })
}

/// What is no regular file, in words.
#[cfg(unix)]
fn what_is(found: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if found.is_dir() {
        "a folder"
    } else if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// What is no regular file, in words.
#[cfg(not(unix))]
fn what_is(found: FileType) -> &'static str {
    if found.is_dir() { "a folder" } else { "a device" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_up_to_its_bound() {
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

    /// The size of such a file is told as 0, and it has bytes all the same.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_read_is_counted() {
        let path = Path::new("/proc/self/status");
        assert_eq!(fs::metadata(path).unwrap().len(), 0);
        assert!(read_text(path, 1 << 20).unwrap().len() > 16);
        let error = read_text(path, 16).unwrap_err();
        assert!(matches!(error, InputError::TooLarge { num_bytes: 17, max_bytes: 16 }), "{error:?}");
    }

    /// Opening the pipe would wait for a writer, reading the device for its end.
    #[cfg(unix)]
    #[test]
    fn what_may_never_end_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, expected) in [(pipe.as_path(), "a pipe"), (Path::new("/dev/zero"), "a device")] {
            let error = read_text(path, 1 << 20).unwrap_err();
            assert!(matches!(error, InputError::NotRegular { what, .. } if what == expected), "{error:?}");
        }
    }
}
