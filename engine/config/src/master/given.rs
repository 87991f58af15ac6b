//! The file that a command was given: the run file of one model, or a master file.

use std::path::Path;

use super::file::MasterFile;
use crate::error::ConfigErrors;
use crate::run_file::RunFile;
use crate::run_text::parse_text;
use crate::several::key_of_master;

/// A run file or a master file.
#[derive(Clone, Debug)]
pub enum GivenFile {
    /// Of one model.
    Run(RunFile),
    /// Of several.
    Master(MasterFile),
}

impl GivenFile {
    /// Reads the file at `path`, or stdin where that is `-`.
    ///
    /// # Errors
    /// As [`RunFile::load`]; everything that is wrong with a master file, but for the run files of its engines.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let (name, text, folder) = RunFile::read(path)?;
        let root = parse_text(&name, &text)?;
        if key_of_master(&root).is_none() {
            return RunFile::of_node(root, folder).map(Self::Run);
        }
        MasterFile::of_node(&root, path, folder).map(Self::Master)
    }
}
