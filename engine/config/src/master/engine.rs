//! An engine of a master file, and its run file once it is read.

use pipezero_files::input::named;
use pipezero_files::printable::printable;
use std::path::PathBuf;

use pipezero_files::json::{Node, Span};

use crate::error::ConfigErrors;
use crate::notice::Notice;
use crate::run_file::RunFile;

/// An engine as the master file has it.
#[derive(Clone, Debug)]
pub(super) struct EngineEntry {
    pub(super) name: String,
    pub(super) at: EngineSource,
    /// The `--set` arguments about it.
    pub(super) arguments: Vec<String>,
}

/// Where the run file of an engine is.
#[derive(Clone, Debug)]
pub(super) enum EngineSource {
    /// In a file of its own.
    File { path: PathBuf, span: Span },
    /// In the master file.
    Inline(Node),
}

/// The run file of an engine of a master file.
#[derive(Clone, Debug)]
pub struct EngineFile {
    /// The engine's name.
    pub name: String,
    /// The run file.
    pub file: RunFile,
    /// The file that it stands in.
    pub(super) path: PathBuf,
    /// The path of the run file's own keys in that file, if it is not the whole file.
    pub(super) prefix: Option<String>,
    /// Whether another engine has the same file.
    pub(super) is_shared: bool,
}

impl EngineFile {
    /// The file that it stands in, as messages call it; with its name where it is not the only engine of that file.
    pub fn shown(&self) -> String {
        let file = printable(&named(self.path()).display().to_string()).into_owned();
        if self.is_shared() { format!("{file}, engine `{}`", self.name) } else { file }
    }

    /// The file that it stands in, its own or the master file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Whether another engine has the same file, so that its name does not say whose it is.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Errors of the run file, with keys as the file that they stand in has them.
    pub fn in_place(&self, errors: ConfigErrors) -> ConfigErrors {
        match &self.prefix {
            Some(prefix) => errors.within(prefix),
            None => errors,
        }
    }

    /// Notices on the run file, likewise.
    pub fn notices_in_place(&self, notices: Vec<Notice>) -> Vec<Notice> {
        match &self.prefix {
            Some(prefix) => notices.into_iter().map(|notice| notice.within(prefix)).collect(),
            None if self.is_shared => {
                notices.into_iter().map(|notice| notice.of_engine(&self.name)).collect()
            }
            None => notices,
        }
    }
}
