//! Making the folder of a run, and trying whether it can be made.

use std::fs;
use std::io;
use std::iter;
use std::path::Path;

use pipezero_files::folder;

/// Makes a folder and those that it lies in, and removes what was made.
pub(super) fn can_be_made(path: &Path) -> io::Result<()> {
    let missing = missing(path);
    let made = make_all(path);
    for folder in missing {
        // What could not be made is not there to be removed.
        let _ = fs::remove_dir(folder);
    }
    made
}

/// Makes a folder and those that it lies in, and returns once their names are on disk. Another process that tries whether its own can be made, for another engine of
/// the job, may remove one of them meanwhile: then they are made again.
pub(super) fn make_all(path: &Path) -> io::Result<()> {
    const NUM_TRIES: usize = 100;
    let missing = missing(path);
    let mut made = fs::create_dir_all(path);
    let mut num_tries = 1;
    while num_tries < NUM_TRIES && made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        made = fs::create_dir_all(path);
        num_tries += 1;
    }
    made?;
    // Its own name, whoever made it, and those of the folders around it that were made here.
    for named in iter::once(path).chain(missing.into_iter().skip(1)) {
        match folder::sync(folder::parent_of(named)) {
            // Names can be made in a folder that this user cannot read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// Those of a folder and the ones it lies in that are not there.
fn missing(path: &Path) -> Vec<&Path> {
    path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect()
}
