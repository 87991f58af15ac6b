//! Reads the text of a run: files, folders and globs become a list of files in a fixed order.
//!
//! Which samples a step reads depends on this order, so it must not depend on the file system: the entries of the run
//! file keep their order, the files of one entry are sorted by path, and a file that is named twice, perhaps through a
//! symbolic link, is read where it is named first.

mod error;
mod find;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use error::TextError;
use find::find_files;

use crate::input::{InputError, read_bytes};
use crate::opened::open_regular;
use crate::records::is_json;

/// One file of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Where it was found.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// The files that the entries stand for, read: files as they are, folders with everything below them, globs with the
/// files that match. Hidden entries and symbolic links that lead back up are skipped. A path that exists is taken
/// literally, even if it has a glob's characters.
///
/// # Errors
/// See [`TextError`]; a file that cannot be used is an error, never left out.
pub fn read_text(entries: &[PathBuf]) -> Result<Vec<TextFile>, TextError> {
    let files = find_all(entries)?.into_iter().map(read_file).collect::<Result<Vec<_>, _>>()?;
    if files.iter().all(|file| file.text.is_empty()) {
        return Err(TextError::Empty { num_files: files.len() });
    }
    Ok(files)
}

/// The files that the entries stand for, each once and in a fixed order.
///
/// # Errors
/// As [`read_text`], except for those of the contents.
pub fn find_all(entries: &[PathBuf]) -> Result<Vec<PathBuf>, TextError> {
    if entries.is_empty() {
        return Err(TextError::NoEntries);
    }
    let (mut files, mut known) = (Vec::new(), HashSet::new());
    for entry in entries {
        for path in find_files(entry)? {
            let identity = fs::canonicalize(&path).map_err(|source| TextError::unreadable(&path, source))?;
            if known.insert(identity) {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Checks that an entry stands for files that may be read, without reading them.
///
/// # Errors
/// As [`read_text`], except for those of the contents.
pub fn find_text(entry: &Path) -> Result<(), TextError> {
    for path in find_files(entry)? {
        // Opening reads nothing, and says whether reading is allowed.
        open_regular(&path).map_err(|source| TextError::unreadable(&path, source))?;
    }
    Ok(())
}

/// Bytes of all files that the entries stand for; a file that two entries name counts twice.
///
/// # Errors
/// As [`find_text`].
pub fn text_bytes(entries: &[PathBuf]) -> Result<u64, TextError> {
    let mut num_bytes = 0;
    for entry in entries {
        for path in find_files(entry)? {
            let found = fs::metadata(&path).map_err(|source| TextError::unreadable(&path, source))?;
            num_bytes += found.len();
        }
    }
    Ok(num_bytes)
}

/// The first words of the first file, letters and digits alone: something that a model of this text can continue. `None` where it begins
/// with none, is JSON, or cannot be read any more.
pub fn first_words(entries: &[PathBuf]) -> Option<String> {
    const BYTES: u64 = 512;
    const LETTERS: usize = 16;
    let path = find_files(entries.first()?).ok()?.into_iter().next().filter(|path| !is_json(path))?;
    let mut bytes = Vec::new();
    open_regular(&path).ok()?.take(BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let mut found = String::new();
    for word in text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if !found.is_empty() && found.len() + word.len() > LETTERS {
            break;
        }
        found = if found.is_empty() { word.to_owned() } else { format!("{found} {word}") };
    }
    (!found.is_empty()).then_some(found)
}

/// One of the files that [`find_all`] finds, read.
///
/// # Errors
/// When it cannot be read, or is no UTF-8.
pub fn read_file(path: PathBuf) -> Result<TextFile, TextError> {
    let bytes = read_bytes(&path, u64::MAX).map_err(|error| {
        let source = match error {
            InputError::Io(source) => source,
            error => io::Error::other(error),
        };
        TextError::unreadable(&path, source)
    })?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(TextFile { path, text }),
        Err(error) => Err(TextError::NotUtf8 { path, offset: error.utf8_error().valid_up_to() }),
    }
}
