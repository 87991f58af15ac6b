//! Finds the files that an entry of the run file stands for: a file, all files of a folder, or the matches of a glob.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use walkdir::{DirEntry, WalkDir};

use super::error::TextError;

/// The files that one entry stands for, sorted; at least one.
pub(super) fn find_files(entry: &Path) -> Result<Vec<PathBuf>, TextError> {
    let mut files = match fs::metadata(entry) {
        Ok(metadata) if metadata.is_dir() => {
            collect(WalkDir::new(entry), |entry| !is_hidden(entry), |_| true, 1)?
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
        WAYS_MAX,
    )
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// How often one folder is entered in a walk for a glob, which may match its files under one of its names and not under another.
const WAYS_MAX: usize = 16;

/// Entries of a walk at most: as many as a large file system has files.
const ENTRIES_MAX: usize = 1 << 24;

/// The wanted files of a walk. Symbolic links are followed; below the walk's root, an entry that is not entered is
/// skipped with all that it holds. Links make more ways to a folder, and a few of them that lead to each other make millions. So a folder is
/// entered at most `ways_max` times; with 1, by the first of its paths in their order, under which its files are known.
fn collect(
    walk: WalkDir,
    is_entered: impl Fn(&DirEntry) -> bool,
    is_wanted: impl Fn(&Path) -> bool,
    ways_max: usize,
) -> Result<Vec<PathBuf>, TextError> {
    let mut entered: HashMap<(u64, u64), usize> = HashMap::new();
    let too_many_ways = Cell::new(None);
    let is_entered = |entry: &DirEntry| {
        if entry.depth() > 0 && !is_entered(entry) {
            return false;
        }
        let Some(folder) = entry.metadata().ok().filter(fs::Metadata::is_dir) else { return true };
        let ways = entered.entry((folder.dev(), folder.ino())).or_default();
        *ways += 1;
        if *ways > ways_max && ways_max > 1 {
            too_many_ways.set(Some(entry.path().to_owned()));
        }
        *ways <= ways_max
    };
    let entries = walk.follow_links(true).sort_by_file_name().into_iter();
    let mut files = Vec::new();
    for (number, entry) in entries.filter_entry(is_entered).enumerate() {
        if let Some(path) = too_many_ways.take() {
            return Err(TextError::TooManyWays { path, max: ways_max });
        }
        if number == ENTRIES_MAX {
            let path = entry.map_or_else(|_| PathBuf::new(), DirEntry::into_path);
            return Err(TextError::TooManyEntries { path, max: ENTRIES_MAX });
        }
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
