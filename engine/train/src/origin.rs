//! The files that a new run keeps of the folder of transformers that its model came from.

use std::io;
use std::path::Path;

use pipezero_config::hugging_face::{HuggingFaceError, Origin, PublishedModel};
use pipezero_config::{Run, RunFile};

use super::run_dir::RunDir;
use super::run_dir_error::RunDirError;

/// Reads the files to keep for a run that begins with the weights at `init`, or draws them. The folder is that of the weights; or that from which the run whose
/// weights they are came; or that whose sizes the model has.
///
/// # Errors
/// When a file cannot be read.
pub fn origin_of(file: &RunFile, run: &Run, init: Option<&Path>) -> Result<Origin, RunDirError> {
    let found = |path: &Path| {
        let path = path.to_owned();
        move |error: HuggingFaceError| RunDirError::Io { path, source: io::Error::other(error.to_string()) }
    };
    if let Some(path) = init {
        if path.join(PublishedModel::FILE).is_file() {
            return Origin::of_folder(path, run, true).map_err(found(path));
        }
        let folder = if path.is_dir() { Some(path) } else { path.parent() };
        if let Some(directory) = folder.and_then(RunDir::around) {
            let kept = Origin::kept_in(directory.path()).map_err(found(path))?;
            if !kept.is_empty() {
                return Ok(kept);
            }
        }
    }
    match file.model_folder() {
        Some(folder) => Origin::of_folder(&folder, run, false).map_err(found(&folder)),
        None => Ok(Origin::default()),
    }
}
