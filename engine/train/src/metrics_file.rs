//! `metrics.jsonl`: a line for each step and evaluation, cut back where a run goes on from an earlier step.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipezero_files::input::read_text;
use serde::Serialize;

use super::metrics::EvalLine;
use super::run_dir_error::RunDirError;

/// `metrics.jsonl`, open for writing. Each line reaches the system at once, so that a run can be watched.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
}

impl MetricsFile {
    /// Bytes of metrics that are read to go on, at most: a line of a step has some 300.
    const BYTES_MAX: u64 = 8 << 30;
    /// Bytes at its end in which its last line is looked for.
    const END_BYTES: u64 = 1 << 16;

    /// Opens the file: to add to it, or empty.
    pub(super) fn open(path: PathBuf, adds: bool) -> Result<Self, RunDirError> {
        let opened = if adds { File::options().append(true).open(&path) } else { File::create(&path) };
        match opened {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(RunDirError::Io { path, source }),
        }
    }

    /// The lines of the first `num_steps` steps, without the evaluation after the last of them where that is made again.
    pub(super) fn lines_until(
        path: &Path,
        num_steps: u64,
        evaluates_again: bool,
    ) -> Result<String, RunDirError> {
        let is_kept = |line: &&str| is_until(line, num_steps, evaluates_again);
        match read_text(path, Self::BYTES_MAX) {
            Ok(text) => Ok(text.split_inclusive('\n').filter(is_kept).collect()),
            Err(error) if error.is_missing() => Ok(String::new()),
            Err(error) => Err(RunDirError::Io { path: path.to_owned(), source: io::Error::other(error) }),
        }
    }

    /// The last step that has a line; `None` where there is none, or the file cannot be read.
    pub(super) fn last_step(path: &Path) -> Option<u64> {
        let file = File::open(path).ok()?;
        let num_bytes = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
        let num_read = num_bytes.min(Self::END_BYTES);
        let mut end = vec![0; num_read as usize];
        file.read_exact_at(&mut end, num_bytes - num_read).ok()?;
        let end = String::from_utf8_lossy(&end);
        end.lines().rev().find_map(|line| serde_json::from_str(line).ok()).map(|Line { step, .. }| step)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the system refuses, or the file is not there any more.
    pub fn add(&mut self, line: &impl Serialize) -> Result<(), RunDirError> {
        let mut text = serde_json::to_string(line).expect("a metrics line has string keys and finite depth");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes());
        // A file that was removed can still be written, and nobody would see it.
        let written = written.and_then(|()| fs::metadata(&self.path).map(drop));
        written.map_err(|source| RunDirError::Io { path: self.path.clone(), source })
    }
}

/// The fields that every line has.
#[derive(serde::Deserialize)]
struct Line {
    /// The lines of steps have none.
    kind: Option<String>,
    step: u64,
}

/// Whether a line of the metrics is whole, and of a step or an evaluation until a step.
fn is_until(line: &str, step: u64, evaluates_again: bool) -> bool {
    let is_kept = |line: Line| {
        let is_made_again = evaluates_again && line.kind.as_deref() == Some(EvalLine::KIND);
        line.step < step || line.step == step && !is_made_again
    };
    line.ends_with('\n') && serde_json::from_str(line).is_ok_and(is_kept)
}
