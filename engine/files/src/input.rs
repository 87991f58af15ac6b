//! Reading files that users name: only regular files, whole, up to a size limit.
//!
//! A device may never end, and a pipe may never begin: reading one would wait, or fill the memory. So the kind of file is
//! checked before it is opened, and bytes are counted while they are read: files grow, and some report a size of 0.

use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::Path;

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
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(InputError::NotRegular { what: kind_of(found.file_type()), max_bytes });
    }
    if found.len() > max_bytes {
        return Err(InputError::TooLarge { num_bytes: found.len(), max_bytes });
    }
    text_of(File::open(path)?, max_bytes)
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
    text_of(io::stdin().lock(), max_bytes)
}

fn text_of(from: impl Read, max_bytes: u64) -> Result<String, InputError> {
    let mut bytes = Vec::new();
    from.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(InputError::TooLarge { num_bytes: bytes.len() as u64, max_bytes });
    }
    String::from_utf8(bytes).map_err(|error| InputError::NotUtf8 { offset: error.utf8_error().valid_up_to() })
}

/// The kind of a file that is not regular, in words.
#[cfg(unix)]
fn kind_of(found: FileType) -> &'static str {
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

/// The kind of a file that is not regular, in words.
#[cfg(not(unix))]
fn kind_of(found: FileType) -> &'static str {
    if found.is_dir() { "a folder" } else { "a device" }
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

    /// The system reports a size of 0 for such a file, although it has bytes.
    #[cfg(target_os = "linux")]
    #[test]
    fn bytes_are_counted_while_they_are_read() {
        let path = Path::new("/proc/self/status");
        assert_eq!(fs::metadata(path).unwrap().len(), 0);
        assert!(read_text(path, 1 << 20).unwrap().len() > 16);
        let error = read_text(path, 16).unwrap_err();
        assert!(matches!(error, InputError::TooLarge { num_bytes: 17, max_bytes: 16 }), "{error:?}");
    }

    /// Opening the pipe would wait for a writer, reading the device for its end.
    #[cfg(unix)]
    #[test]
    fn devices_and_pipes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, expected) in [(pipe.as_path(), "a pipe"), (Path::new("/dev/zero"), "a device")] {
            let error = read_text(path, 1 << 20).unwrap_err();
            assert!(matches!(error, InputError::NotRegular { what, .. } if what == expected), "{error:?}");
        }
    }
}
