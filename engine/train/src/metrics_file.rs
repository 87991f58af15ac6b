//! `metrics.jsonl`: a line for each step and evaluation, cut back where a run goes on from an earlier step.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipezero_files::input::read_text;
use pipezero_files::opened::{Own, open_own, open_regular};
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

    /// Opens the file to add to it.
    pub(super) fn open(path: PathBuf) -> Result<Self, RunDirError> {
        match open_own(&path, Own::AddedTo) {
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
        let file = open_regular(path).ok()?;
        let num_bytes = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
        let num_read = num_bytes.min(Self::END_BYTES);
        let mut end = vec![0; num_read as usize];
        file.read_exact_at(&mut end, num_bytes - num_read).ok()?;
        let end = String::from_utf8_lossy(&end);
        end.lines().rev().find_map(|line| serde_json::from_str(line).ok()).map(|Line { step, .. }| step)
    }

    /// The steps up to `step` that have no line although an earlier one has, as ranges. None where there are no lines at all: a folder may have checkpoints alone.
    pub(super) fn missing_until(path: &Path, step: u64) -> Vec<RangeInclusive<u64>> {
        let text = read_text(path, Self::BYTES_MAX).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        let mut steps: Vec<u64> = lines.filter(|line| line.kind.is_none()).map(|line| line.step).collect();
        steps.sort_unstable();
        let after_all = (!steps.is_empty()).then_some(step.saturating_add(1));
        steps.extend(after_all);
        let pairs = steps.windows(2).map(|pair| (pair[0].saturating_add(1), pair[1].saturating_sub(1)));
        pairs.map(|(first, last)| first..=last.min(step)).filter(|missing| !missing.is_empty()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_a_line_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let missing = |steps: &[u64], until: u64| {
            let lines: String = steps.iter().map(|step| format!("{{\"step\":{step}}}\n")).collect();
            fs::write(&path, format!("{lines}{{\"kind\":\"eval\",\"step\":3}}\n")).unwrap();
            MetricsFile::missing_until(&path, until)
        };
        let none: Vec<RangeInclusive<u64>> = Vec::new();
        assert_eq!(missing(&[1, 2, 3, 4], 4), none);
        assert_eq!(missing(&[1, 2, 5, 7], 8), [3..=4, 6..=6, 8..=8]);
        assert_eq!(missing(&[1, 2, 5, 7], 4), [3..=4]);
        assert_eq!(missing(&[1, 2, 5, 7], 2), none);
        // Of a folder that had checkpoints alone.
        assert_eq!(missing(&[6, 7], 7), none);
        assert_eq!(missing(&[], 9), none);
        assert_eq!(MetricsFile::missing_until(&folder.path().join("none"), 9), none);
    }
}
