//! The traced steps of a run directory: `DIR/trace/step-000002.json` and so on, a file for each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pipezero_files::folder::make_within;
use pipezero_files::input::{InputError, read_text};
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_files::unknown_files;
use pipezero_plan::Plan;

use super::file::ParseError;
use crate::recording::{Fault, Recording};

/// Why traced steps cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The run was not traced.
    #[error("{}: no step was traced; run `pipezero train RUN.json --trace`", path.display())]
    NoTrace {
        /// Where traced steps would be.
        path: PathBuf,
    },
    /// A file does not hold a traced step of this run.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
    /// No step of the program can have happened as the ranks recorded it.
    #[error("step {step} was recorded wrongly, which is a mistake of pipezero itself: {source}")]
    Recorded {
        /// The step.
        step: u64,
        /// What is wrong with it.
        source: Fault,
    },
    /// A file holds another step than its name says.
    #[error("{} holds step {step}: it was renamed, or belongs to another run; trace the run again", path.display())]
    OtherStep {
        /// The file.
        path: PathBuf,
        /// The step in it.
        step: u64,
    },
    /// A file cannot be read: the system refuses, or the file is too large or no text.
    #[error("{}: cannot read the traced step: {reason}; trace the run again", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The folder of traced steps.
#[derive(Clone, Debug)]
pub struct TraceFolder {
    path: PathBuf,
}

impl TraceFolder {
    /// The name of the folder in a run directory.
    pub const NAME: &str = "trace";

    /// The folder of a run directory, whether it exists or not.
    pub fn of_run(directory: &Path) -> Self {
        Self { path: directory.join(Self::NAME) }
    }

    /// Something in the folder, as a path from the run directory, that no run wrote; the path itself if it is not a folder.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn first_unknown(&self) -> io::Result<Option<PathBuf>> {
        unknown_files::first_unknown(&self.path, |name| {
            step_of(name.strip_suffix(PartialFile::ENDING).unwrap_or(name)).is_some()
        })
    }

    /// Writes a step; the file appears under its name only when it is complete.
    ///
    /// # Errors
    /// [`TraceError::Io`] when the system refuses.
    pub fn write(&self, recording: &Recording<'_>) -> Result<(), TraceError> {
        make_within(&self.path).map_err(|source| Self::io(&self.path, source))?;
        let path = self.file(recording.step());
        PartialFile::create(&path, Existing::Replaced)
            .and_then(|file| file.finish_with(recording.to_json()))
            .map_err(|source| Self::io(&path, source))
    }

    /// The numbers of the steps that are there, ascending; at least one.
    ///
    /// # Errors
    /// [`TraceError::NoTrace`] if there is none.
    pub fn steps(&self) -> Result<Vec<u64>, TraceError> {
        let no_trace = || TraceError::NoTrace { path: self.path.clone() };
        if !self.path.is_dir() {
            return Err(no_trace());
        }
        let io = |source| Self::io(&self.path, source);
        let mut steps = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            // Other files are left alone.
            steps.extend(name.to_str().and_then(step_of));
        }
        steps.sort_unstable();
        if steps.is_empty() { Err(no_trace()) } else { Ok(steps) }
    }

    /// Reads a step.
    ///
    /// # Errors
    /// [`TraceError`] unless the file exists, is whole, and is of the plan's program.
    pub fn read<'a>(&self, plan: &'a Plan, step: u64) -> Result<Recording<'a>, TraceError> {
        let path = self.file(step);
        let unreadable =
            |error: InputError| TraceError::Unreadable { path: path.clone(), reason: error.to_string() };
        let text = read_text(&path, Recording::max_bytes(plan)).map_err(unreadable)?;
        match Recording::from_json(plan, &text) {
            Ok(recording) if recording.step() == step => Ok(recording),
            Ok(recording) => Err(TraceError::OtherStep { path, step: recording.step() }),
            Err(source) => Err(TraceError::Parse { path, source }),
        }
    }

    fn file(&self, step: u64) -> PathBuf {
        self.path.join(format!("step-{step:06}.json"))
    }

    fn io(path: &Path, source: io::Error) -> TraceError {
        TraceError::Io { path: path.to_owned(), source }
    }
}

/// The step that a file's name says.
fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("step-")?.strip_suffix(".json")?;
    let step: u64 = digits.parse().ok()?;
    (format!("step-{step:06}.json") == name).then_some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_written_are_read() {
        assert_eq!(step_of("step-000002.json"), Some(2));
        assert_eq!(step_of("step-1234567.json"), Some(1_234_567));
        for name in
            ["step-2.json", "step-0000002.json", "step-+00002.json", "step-000002.json.partial", "x.json"]
        {
            assert_eq!(step_of(name), None, "{name}");
        }
    }
}
