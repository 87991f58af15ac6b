//! Costs files from the disk, and as text.

use std::path::Path;

use pipezero_files::input::read_text;
use pipezero_files::json::Source;
use serde::Deserialize;

use super::{COSTS_BYTES_MAX, COSTS_VERSION, CostsFile};
use crate::costs::file_check::Broken;
use crate::costs::file_error::{CostsFileError, CostsFileRule};

/// What is read before it is known that the rest can be.
#[derive(Deserialize)]
#[serde(expecting = "a costs file, which is one object")]
struct Versioned {
    version: u64,
}

impl CostsFile {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`CostsFileError`]: it cannot be read, is not a regular file, is larger than any costs file, is not JSON of this
    /// version, or breaks a rule.
    pub fn load(path: &Path) -> Result<Self, CostsFileError> {
        let name = path.display().to_string();
        match read_text(path, COSTS_BYTES_MAX) {
            Ok(text) => Self::parse(&name, &text),
            Err(error) => Err(CostsFileError::Unreadable { name, reason: error.to_string() }),
        }
    }

    /// Reads a text that messages call `name`.
    ///
    /// # Errors
    /// As [`CostsFile::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, CostsFileError> {
        let source = Source::file(name, text);
        let broken = |Broken { path, rule }: Broken| {
            let (line, column) = source.place_of(&path).line_column();
            CostsFileError::Rule { name: name.to_owned(), line, column, rule }
        };
        let Versioned { version } = source.read()?;
        if version != COSTS_VERSION {
            let rule = CostsFileRule::Version { version };
            return Err(broken(Broken { path: "version".to_owned(), rule }));
        }
        let file: Self = source.read()?;
        file.check().map_err(broken)?;
        Ok(file)
    }

    /// Sizes of messages that were probed: none of the run's own.
    pub fn num_probed_sizes(&self) -> usize {
        self.messages.iter().flat_map(|of| &of.sizes).filter(|size| size.probed).count()
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("a costs file has nothing that JSON has not");
        text.push('\n');
        text
    }
}
