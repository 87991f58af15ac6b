//! Finds the files that an entry of the run file stands for: a file, all files of a folder, or the matches of a glob.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use walkdir::{DirEntry, WalkDir};

use super::error::TextError;

/// The files that one entry stands for, sorted; at least one.
pub(super) fn find_files(entry: &Path) -> Result<Vec<PathBuf>, TextError> {
    let mut files = match fs::metadata(entry) {
        Ok(metadata) if metadata.is_dir() => {
            collect(WalkDir::new(entry), |entry| !is_hidden(entry), |_| true)?
        }
        Ok(metadata) if metadata.is_file() => return Ok(vec![entry.to_owned()]),
        Ok(_) => return Err(TextError::NotAFile(entry.to_owned())),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(TextError::unreadable(entry, error));
        }
        Err(_) if is_glob(entry) => find_matches(entry)?,
        Err(_) => return Err(TextError::Missing(entry.to_owned())),
    };
    if files.is_empty() {
        return Err(TextError::NoFiles(entry.to_owned()));
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
    let missing = || TextError::Missing(entry.to_owned());
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
                // A folder that cannot be read may hold wanted files; a dangling link matters only if it is wanted.
                if is_wanted(&path) || path.is_dir() {
                    let source = error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into());
                    return Err(TextError::Unreadable { path, source });
                }
            }
        }
    }
    Ok(files)
}
