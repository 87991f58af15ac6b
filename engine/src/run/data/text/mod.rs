//! Reads the text of a run: files, folders and globs become a list of files in a fixed order.
//!
//! Which samples a step sees depends on this order, so it must not depend on the file system: the entries of the run
//! file keep their order, what an entry stands for is sorted by path, and a file that is named twice (symbolic links
//! seen through) counts where it is named first.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use walkdir::{DirEntry, WalkDir};

/// One file of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFile {
    /// Where it was found.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The list of entries is empty.
    #[error("no text is named; name at least one file, folder or glob")]
    NoEntries,
    /// An entry is neither a file, nor a folder, nor a glob.
    #[error("`{path}` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`")]
    Missing {
        /// The entry.
        path: PathBuf,
    },
    /// An entry is a device, a pipe or a socket, which may never end.
    #[error("`{path}` is no regular file; write its text to a file and name that")]
    NotAFile {
        /// The entry.
        path: PathBuf,
    },
    /// An entry looks like a glob but is not one.
    #[error("`{path}` is not a valid glob: {reason}; write `[*]` for a star that is meant literally")]
    Glob {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder or glob stands for no file.
    #[error(
        "`{path}` stands for no file; name a folder or glob with at least one file (hidden files are only found \
         where the glob spells their dot)"
    )]
    NoFiles {
        /// The entry.
        path: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("`{path}` cannot be read: {source}; make it readable or leave it out")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not UTF-8.
    #[error(
        "`{path}` is not UTF-8 text at byte {offset}; convert it, or name only the text files, with a glob such as \
         `**/*.txt`"
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is part of no character, counted from 0.
        offset: usize,
    },
    /// All files together hold nothing.
    #[error("the text is empty: all {num_files} files have 0 bytes; name files with text")]
    Empty {
        /// Number of files.
        num_files: usize,
    },
}

/// The files that the entries stand for, read: files as they are, folders with everything below them, globs with the
/// files that match. Hidden entries and symbolic links that lead back up are skipped. A path that exists is taken
/// literally, even if it has a glob's characters.
///
/// # Errors
/// See [`TextError`]; a file that cannot be used is an error, never left out.
pub fn read_text(entries: &[PathBuf]) -> Result<Vec<TextFile>, TextError> {
    if entries.is_empty() {
        return Err(TextError::NoEntries);
    }
    let mut files = Vec::new();
    let mut known = HashSet::new();
    for entry in entries {
        for path in find_files(entry)? {
            let identity = fs::canonicalize(&path).map_err(|source| unreadable(&path, source))?;
            if known.insert(identity) {
                files.push(read_file(path)?);
            }
        }
    }
    if files.iter().all(|file| file.text.is_empty()) {
        return Err(TextError::Empty { num_files: files.len() });
    }
    Ok(files)
}

/// Why an entry stands for no file, as far as that can be said without reading one.
///
/// # Errors
/// As [`read_text`], but for what only the contents show.
pub fn find_text(entry: &Path) -> Result<(), TextError> {
    for path in find_files(entry)? {
        // Opening reads nothing, and says whether reading is allowed.
        fs::File::open(&path).map_err(|source| unreadable(&path, source))?;
    }
    Ok(())
}

fn read_file(path: PathBuf) -> Result<TextFile, TextError> {
    let bytes = fs::read(&path).map_err(|source| unreadable(&path, source))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(TextFile { path, text }),
        Err(error) => Err(TextError::NotUtf8 { path, offset: error.utf8_error().valid_up_to() }),
    }
}

/// The files that one entry stands for, sorted; at least one.
fn find_files(entry: &Path) -> Result<Vec<PathBuf>, TextError> {
    let mut files = match fs::metadata(entry) {
        Ok(metadata) if metadata.is_dir() => {
            collect(WalkDir::new(entry), |entry| !is_hidden(entry), |_| true)?
        }
        Ok(metadata) if metadata.is_file() => return Ok(vec![entry.to_owned()]),
        Ok(_) => return Err(TextError::NotAFile { path: entry.to_owned() }),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unreadable(entry, error)),
        Err(_) if is_glob(entry) => find_matches(entry)?,
        Err(_) => return Err(TextError::Missing { path: entry.to_owned() }),
    };
    if files.is_empty() {
        return Err(TextError::NoFiles { path: entry.to_owned() });
    }
    files.sort_unstable();
    Ok(files)
}

fn is_glob(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains(['*', '?', '[']))
}

/// The files that match a glob.
///
/// `glob::glob` would find them too, but it follows symbolic links in circles; so the longest part of the path that
/// exists is walked, and the rest is matched.
fn find_matches(entry: &Path) -> Result<Vec<PathBuf>, TextError> {
    let missing = || TextError::Missing { path: entry.to_owned() };
    let invalid =
        |error: glob::PatternError| TextError::Glob { path: entry.to_owned(), reason: error.to_string() };
    // The last ancestor of a relative path is the empty one: the current folder.
    let base =
        entry.ancestors().skip(1).find(|ancestor| ancestor.is_dir() || ancestor.as_os_str().is_empty());
    let base = base.ok_or_else(missing)?;
    let rest = entry.strip_prefix(base).ok().and_then(Path::to_str).ok_or_else(missing)?;
    let pattern = Pattern::new(rest).map_err(invalid)?;
    let names: Vec<&str> = rest.split(std::path::MAIN_SEPARATOR).filter(|name| !name.is_empty()).collect();
    let recursion = names.iter().position(|&name| name == "**");
    // Folders above a `**` are entered only where their own part of the pattern matches: `*/src/**/*.rs` has nothing
    // to seek in a build folder.
    let fixed = names[..recursion.unwrap_or(names.len())].iter().map(|name| Pattern::new(name));
    let fixed: Vec<Pattern> = fixed.collect::<Result<_, _>>().map_err(invalid)?;
    let spells_dot = names.iter().any(|name| name.starts_with('.'));
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let root = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let walk = WalkDir::new(root).max_depth(if recursion.is_some() { usize::MAX } else { names.len() });
    collect(
        walk,
        |entry| match fixed.get(entry.depth() - 1) {
            Some(pattern) => {
                entry.file_name().to_str().is_some_and(|name| pattern.matches_with(name, options))
            }
            None => spells_dot || !is_hidden(entry),
        },
        |path| path.strip_prefix(root).is_ok_and(|below| pattern.matches_path_with(below, options)),
    )
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// The wanted files of a walk. Symbolic links are followed; below the walk's root, an entry that is not entered is
/// skipped with all that it holds.
fn collect(
    walk: WalkDir,
    is_entered: impl Fn(&DirEntry) -> bool,
    is_wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, TextError> {
    let entries = walk.follow_links(true).into_iter();
    let mut files = Vec::new();
    for entry in entries.filter_entry(|entry| entry.depth() == 0 || is_entered(entry)) {
        match entry {
            Ok(entry) if entry.file_type().is_file() && is_wanted(entry.path()) => {
                files.push(entry.into_path())
            }
            Ok(_) => {}
            // A symbolic link that leads back up: its files are found where they really are.
            Err(error) if error.loop_ancestor().is_some() => {}
            Err(error) => {
                let path = error.path().map(Path::to_owned).unwrap_or_default();
                // A folder that stays closed may hide wanted files; a dangling link matters only if it is wanted.
                if is_wanted(&path) || path.is_dir() {
                    let source = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                    return Err(TextError::Unreadable { path, source });
                }
            }
        }
    }
    Ok(files)
}

fn unreadable(path: &Path, source: io::Error) -> TextError {
    TextError::Unreadable { path: path.to_owned(), source }
}
