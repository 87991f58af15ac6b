//! The folder that a run leaves: its run file, metrics, weights and summary. Never overwritten unasked.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// A run's folder.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
}

/// Why a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunDirError {
    /// It exists already.
    #[error("{} already exists: name another folder with --out, or replace it with --overwrite", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// It holds no run.
    #[error("{} is no run directory: it has no {file}; give the folder that `pipezero train` wrote", path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// A folder to be replaced holds something that no run wrote.
    #[error("{} is not replaced: it has no {}, so it may not be a run directory; remove it yourself", path.display(), RunDir::RUN_FILE)]
    NotARun {
        /// The folder.
        path: PathBuf,
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

/// What is where a run directory is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing, or an empty folder.
    Free,
    /// An earlier run, to be replaced.
    EarlierRun,
}

impl RunDir {
    /// The run file as it ran, with its overrides and absolute paths.
    pub const RUN_FILE: &str = "run.json";
    /// A line per step and evaluation.
    pub const METRICS: &str = "metrics.jsonl";
    /// The final weights.
    pub const WEIGHTS: &str = "weights.safetensors";
    /// Measured figures beside the planned ones.
    pub const SUMMARY: &str = "summary.json";

    /// Makes a new folder; with `overwrite` an earlier run's folder is replaced.
    ///
    /// # Errors
    /// When it exists and is not to be replaced, or is no run's, or the system refuses.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, RunDirError> {
        let io = |source| RunDirError::Io { path: path.to_owned(), source };
        if Self::check(path, overwrite)? == Place::EarlierRun {
            fs::remove_dir_all(path).map_err(io)?;
        }
        fs::create_dir_all(path).map_err(io)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Whether [`RunDir::create`] could make the folder; changes nothing.
    ///
    /// # Errors
    /// As [`RunDir::create`].
    pub fn check(path: &Path, overwrite: bool) -> Result<Place, RunDirError> {
        let io = |source| RunDirError::Io { path: path.to_owned(), source };
        if !path.exists() || (path.is_dir() && fs::read_dir(path).map_err(io)?.next().is_none()) {
            return Ok(Place::Free);
        }
        if !overwrite {
            return Err(RunDirError::Exists { path: path.to_owned() });
        }
        if !path.join(Self::RUN_FILE).is_file() {
            return Err(RunDirError::NotARun { path: path.to_owned() });
        }
        Ok(Place::EarlierRun)
    }

    /// Opens the folder of a finished run.
    ///
    /// # Errors
    /// When its run file or weights are missing.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        for file in [Self::RUN_FILE, Self::WEIGHTS] {
            if !path.join(file).is_file() {
                return Err(RunDirError::NoRun { path: path.to_owned(), file });
            }
        }
        Ok(Self { path: path.to_owned() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file whole.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, name: &str, contents: &str) -> Result<(), RunDirError> {
        let path = self.file(name);
        fs::write(&path, contents).map_err(|source| RunDirError::Io { path, source })
    }

    /// Opens the metrics file for lines to be added.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn metrics(&self) -> Result<MetricsFile, RunDirError> {
        let path = self.file(Self::METRICS);
        let file = File::create(&path).map_err(|source| RunDirError::Io { path: path.clone(), source })?;
        Ok(MetricsFile { path, file })
    }
}

/// `metrics.jsonl`, open for writing. Each line reaches the system at once, so that a run can be watched.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Adds a line.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn add(&mut self, line: &impl Serialize) -> Result<(), RunDirError> {
        let mut text = serde_json::to_string(line).expect("a metrics line has string keys and finite depth");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|source| RunDirError::Io { path: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_replaced_only_when_asked_and_only_if_a_run_wrote_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run");
        let run = RunDir::create(&path, false).unwrap();
        run.write(RunDir::RUN_FILE, "{}").unwrap();
        assert!(matches!(RunDir::create(&path, false), Err(RunDirError::Exists { .. })));
        RunDir::create(&path, true).unwrap();
        assert!(!path.join(RunDir::RUN_FILE).exists());
        fs::write(path.join("thesis.txt"), "years of work").unwrap();
        assert!(matches!(RunDir::create(&path, true), Err(RunDirError::NotARun { .. })));
        assert!(path.join("thesis.txt").exists());
    }

    #[test]
    fn a_folder_without_weights_is_no_run() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(RunDir::RUN_FILE), "{}").unwrap();
        let error = RunDir::open(home.path()).unwrap_err();
        assert!(matches!(error, RunDirError::NoRun { file: RunDir::WEIGHTS, .. }));
    }
}
