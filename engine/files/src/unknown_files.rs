//! Unknown files in a folder: what a program did not write there, looked for before it replaces the folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The first unknown entry of a folder: one that is not a file with a name of ours. Its path begins with the folder's name. It is the
/// folder's name itself if that is not a folder.
///
/// # Errors
/// When the system refuses.
pub fn first_unknown(folder: &Path, is_ours: impl Fn(&str) -> bool) -> io::Result<Option<PathBuf>> {
    let own_name = PathBuf::from(folder.file_name().unwrap_or_default());
    // Not `is_dir`, which follows links: what they lead to is not ours to remove.
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Ok(Some(own_name));
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_some_and(&is_ours) || !entry.file_type()?.is_file() {
            return Ok(Some(own_name.join(name)));
        }
    }
    Ok(None)
}
