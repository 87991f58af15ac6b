//! `metrics.jsonl`: a line for each step and evaluation, cut back where a run goes on from an earlier step.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::{ControlFlow, RangeInclusive};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use pipezero_files::input::{InputError, check_is_of_folder};
use pipezero_files::opened::{Own, open_own, open_regular};
use serde::Serialize;

use super::metrics::EvalLine;
use super::run_dir_error::RunDirError;

/// `metrics.jsonl`, open for writing. Each line reaches the system at once, so that a run can be watched. Lines that could not be written are kept, and
/// written before the next.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    file: File,
    /// Bytes of the lines that were written whole.
    num_bytes: u64,
    /// Lines that are still to be written.
    unwritten: String,
    /// Whether the file may end with a part of them.
    is_cut: bool,
    /// Changes of the file by other programs that have not been reported yet.
    warnings: Vec<String>,
}

impl MetricsFile {
    /// Bytes at its end in which its last line is looked for.
    const END_BYTES: u64 = 1 << 16;

    /// Opens the file to add to it.
    pub(super) fn open(path: PathBuf) -> Result<Self, RunDirError> {
        let io = |source| RunDirError::Io { path: path.clone(), source };
        let file = open_own(&path, Own::AddedTo).map_err(io)?;
        let num_bytes = file.metadata().map_err(io)?.len();
        Ok(Self { path, file, num_bytes, unwritten: String::new(), is_cut: false, warnings: Vec::new() })
    }

    /// The lines of the first `num_steps` steps, without the evaluation after the last of them where that is made again.
    pub(super) fn lines_until(
        path: &Path,
        num_steps: u64,
        evaluates_again: bool,
    ) -> Result<String, RunDirError> {
        let mut kept = String::new();
        let read = each_line(path, |line| {
            if is_until(line, num_steps, evaluates_again) {
                kept.push_str(line);
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) => Ok(kept),
            Err(error) if error.is_missing() => Ok(kept),
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

    /// The faults of the lines of the steps up to `step`. None if there are no lines at all: a folder may have only checkpoints.
    pub(super) fn faults_until(path: &Path, step: u64) -> LineFaults {
        let mut num_damaged = 0;
        let mut steps = Vec::new();
        // A file that cannot be read counts as one without lines.
        let _ = each_line(path, |line| {
            match serde_json::from_str::<Line>(line) {
                // Lines after the step are of what is done again.
                Ok(line) if line.step > step => return ControlFlow::Break(()),
                Ok(line) => steps.extend(line.kind.is_none().then_some(line.step)),
                Err(_) => num_damaged += usize::from(line.ends_with('\n')),
            }
            ControlFlow::Continue(())
        });
        steps.sort_unstable();
        let doubled =
            steps.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]..=pair[0]).collect();
        let after_all = (!steps.is_empty()).then_some(step.saturating_add(1));
        steps.extend(after_all);
        let pairs = steps.windows(2).map(|pair| (pair[0].saturating_add(1), pair[1].saturating_sub(1)));
        let missing = pairs.map(|(first, last)| first..=last.min(step)).filter(|missing| !missing.is_empty());
        LineFaults { missing: missing.collect(), doubled, num_damaged }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the system refuses; the line is then kept, and written before the next.
    pub fn add(&mut self, line: &impl Serialize) -> Result<(), RunDirError> {
        let line = serde_json::to_string(line).expect("a metrics line has string keys and finite depth");
        self.unwritten.push_str(&line);
        self.unwritten.push('\n');
        self.write().map_err(|source| RunDirError::Io { path: self.path.clone(), source })
    }

    /// Changes of the file by other programs since the last call.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Lines that could not be written.
    pub(super) fn unwritten(&self) -> &str {
        &self.unwritten
    }

    /// Writes what is still to be written, and returns once all lines are on disk: a checkpoint of their steps follows.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn sync(&mut self) -> Result<(), RunDirError> {
        let synced = self.write().and_then(|()| match self.file.sync_data() {
            // A file system that cannot do so, or a pipe.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        });
        synced.map_err(|source| RunDirError::Io { path: self.path.clone(), source })
    }

    fn write(&mut self) -> io::Result<()> {
        // The file is looked for when there is something to write, so that a warning names its step.
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.follow()?;
        if self.is_cut {
            self.file.set_len(self.num_bytes)?;
            self.is_cut = false;
        }
        if let Err(error) = self.file.write_all(self.unwritten.as_bytes()) {
            self.is_cut = true;
            return Err(error);
        }
        self.num_bytes += self.unwritten.len() as u64;
        self.unwritten.clear();
        Ok(())
    }

    /// Goes on in a file of this name where the one that was written was moved, removed or emptied, as programs do that keep logs short. A file that was moved
    /// could still be written, and nobody would look there.
    fn follow(&mut self) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_own = match fs::symlink_metadata(&self.path) {
            Ok(found) => (found.dev(), found.ino()) == (own.dev(), own.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let is_whole = own.len() >= self.num_bytes;
        if is_own && is_whole {
            return Ok(());
        }
        let first = self.unwritten.lines().find_map(|line| serde_json::from_str(line).ok());
        let step = first.map_or(0, |Line { step, .. }| step);
        let path = self.path.display();
        if is_own {
            self.warnings.push(format!(
                "another program has made {path} shorter: lines before step {step} may be missing there"
            ));
            if !ends_with_a_line(&self.path, own.len()) {
                self.unwritten.insert(0, '\n');
            }
        } else {
            self.file = open_own(&self.path, Own::AddedTo)?;
            self.warnings.push(format!("another program has moved or removed {path}: lines from step {step} on are in a new file of that name"));
            self.is_cut = false;
        }
        self.num_bytes = self.file.metadata()?.len();
        Ok(())
    }
}

/// Bytes of a line at most: that of a step has some 300.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Calls `each` with one line of a file after the other, its end included, until that breaks off. A line that is too long is an error.
fn each_line(path: &Path, mut each: impl FnMut(&str) -> ControlFlow<()>) -> Result<(), InputError> {
    check_is_of_folder(path)?;
    let mut file = BufReader::new(open_regular(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let num_bytes = file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? as u64;
        if num_bytes == 0 {
            return Ok(());
        }
        if num_bytes == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            let error = "it has a line of more than 1 MiB, which no run wrote: move the file away";
            return Err(io::Error::other(error).into());
        }
        if each(&String::from_utf8_lossy(&line)).is_break() {
            return Ok(());
        }
    }
}

/// Whether a file of so many bytes is empty or ends with a whole line.
fn ends_with_a_line(path: &Path, num_bytes: u64) -> bool {
    let mut last = [0];
    let Some(at) = num_bytes.checked_sub(1) else { return true };
    open_regular(path).and_then(|file| file.read_exact_at(&mut last, at)).is_ok() && last == *b"\n"
}

/// Faults of the lines of finished steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineFaults {
    /// Steps without a line, although an earlier one has a line.
    pub missing: Vec<RangeInclusive<u64>>,
    /// Steps with more than one line.
    pub doubled: Vec<RangeInclusive<u64>>,
    /// Lines that cannot be read.
    pub num_damaged: usize,
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
            MetricsFile::faults_until(&path, until).missing
        };
        let none: Vec<RangeInclusive<u64>> = Vec::new();
        assert_eq!(missing(&[1, 2, 3, 4], 4), none);
        assert_eq!(missing(&[1, 2, 5, 7], 8), [3..=4, 6..=6, 8..=8]);
        assert_eq!(missing(&[1, 2, 5, 7], 4), [3..=4]);
        assert_eq!(missing(&[1, 2, 5, 7], 2), none);
        // Of a folder that had checkpoints alone.
        assert_eq!(missing(&[6, 7], 7), none);
        assert_eq!(missing(&[], 9), none);
        assert_eq!(MetricsFile::faults_until(&folder.path().join("none"), 9), LineFaults::default());
        fs::write(&path, "{\"step\":1}\n{\"st\n{\"step\":2}\n{\"step\":2}\n{\"step\":3}\n{\"st").unwrap();
        let faults = LineFaults { missing: none, doubled: vec![2..=2], num_damaged: 1 };
        assert_eq!(MetricsFile::faults_until(&path, 3), faults);
    }

    #[test]
    fn lines_go_on_where_the_file_was_moved_or_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let line = |step: u64| serde_json::json!({ "step": step });
        let mut file = MetricsFile::open(path.clone()).unwrap();
        file.add(&line(1)).unwrap();
        fs::rename(&path, folder.path().join("metrics.jsonl.1")).unwrap();
        file.add(&line(2)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":2}\n");
        File::create(&path).unwrap();
        file.add(&line(3)).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        // Kept, and written once there is a file again.
        file.add(&line(4)).unwrap_err();
        assert_eq!(file.unwritten(), "{\"step\":4}\n");
        fs::remove_dir(&path).unwrap();
        file.add(&line(5)).unwrap();
        file.sync().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":4}\n{\"step\":5}\n");
        File::options().write(true).open(&path).unwrap().set_len(15).unwrap();
        file.add(&line(6)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"step\":4}\n{\"st\n{\"step\":6}\n");
        let warnings = file.take_warnings();
        assert!(
            warnings.len() == 4 && warnings[3].ends_with("lines before step 6 may be missing there"),
            "{warnings:?}"
        );
    }
}
