//! The folder that a run writes: its run file and schedule, metrics, weights and summary. Never overwritten unasked.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use pipezero_files::input::{InputError, check_is_of_folder, named, read_text};
use pipezero_files::opened::{Own, open_own};
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_run::checkpoint::{Checkpoints, Starts, StepOfStart};
use pipezero_tokens::Tokenizer;

use super::metrics_file::MetricsFile;
use super::run_dir_error::RunDirError;
use super::run_lock::{LockError, RunLock, StillHeld};
use super::summary::{self, Measured};

/// A run's folder.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The run file that was written last.
    pub(super) recorded: OnceLock<String>,
    /// The number of the start that writes the folder.
    start: OnceLock<u64>,
    /// Changes of the folder that have not been reported yet.
    warnings: Mutex<Vec<String>>,
    /// Held by a run that writes the folder.
    lock: Option<RunLock>,
}

impl RunDir {
    /// The run file as it ran, with its overrides; it names texts by absolute paths.
    pub const RUN_FILE: &str = "run.json";
    /// A copy of the schedule file, if there is one; the run file names the copy, so that the original may be deleted.
    pub const SCHEDULE: &str = "schedule.csv";

    /// The tokenizer of a run that has one.
    pub const TOKENIZER: &str = Tokenizer::FILE;
    /// What transformers keeps beside a tokenizer: a run has copies of those that are there.
    pub const BESIDE_TOKENIZER: [&str; 4] =
        [Self::TOKENIZER_CONFIG, "special_tokens_map.json", "generation_config.json", "chat_template.jinja"];
    /// That of them which names the tokens that begin and end a text.
    pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
    /// A line per step and evaluation.
    pub const METRICS: &str = "metrics.jsonl";
    /// The final weights.
    pub const WEIGHTS: &str = "weights.safetensors";
    /// Measured figures beside the planned ones.
    pub const SUMMARY: &str = "summary.json";
    /// A traced step for `ui.perfetto.dev`, if steps were traced; all of them are in a folder of their own.
    pub const TRACE: &str = "trace.json";
    /// The same, beside its prediction.
    pub const COMPARISON: &str = "compare.json";
    /// Bytes of a summary that is read, at most: it has a few figures of each rank, and the names of its layers.
    const SUMMARY_BYTES_MAX: u64 = 64 << 20;
    /// Bytes of a run file that is read back, at most.
    pub(super) const RUN_FILE_BYTES_MAX: u64 = 64 << 20;
    /// Everything that a run writes, but for [`RunDir::BESIDE_TOKENIZER`] and [`Origin::FILES`](pipezero_config::hugging_face::Origin::FILES).
    pub(super) const FILES: [&str; 8] = [
        Self::RUN_FILE,
        Self::SCHEDULE,
        Self::TOKENIZER,
        Self::METRICS,
        Self::WEIGHTS,
        Self::SUMMARY,
        Self::TRACE,
        Self::COMPARISON,
    ];

    /// The folder of a run whose files another process writes, the one of rank 0.
    pub fn written_elsewhere(path: &Path) -> Self {
        Self::locked_by(path, None)
    }

    pub(super) fn locked_by(path: &Path, lock: Option<RunLock>) -> Self {
        Self {
            path: path.to_owned(),
            recorded: OnceLock::new(),
            start: OnceLock::new(),
            warnings: Mutex::default(),
            lock,
        }
    }

    /// Checks that a run which starts at its first step replaces nothing: weights of steps that an earlier one did.
    ///
    /// # Errors
    /// When there are such weights.
    pub(super) fn check_nothing_is_lost(path: &Path) -> Result<(), RunDirError> {
        if Starts::read(path)?.is_being_removed() {
            return Ok(());
        }
        let has_steps = fs::metadata(path.join(Self::METRICS)).is_ok_and(|file| file.len() > 0);
        match has_steps && path.join(Self::WEIGHTS).exists() {
            true => Err(RunDirError::WeightsAlone { path: path.to_owned() }),
            false => Ok(()),
        }
    }

    /// Opens the folder of a finished run.
    ///
    /// # Errors
    /// When its run file or weights are missing.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let run = match Self::with_files(path, &[Self::RUN_FILE, Self::WEIGHTS]) {
            Err(RunDirError::NoRun { path, file: Self::WEIGHTS }) => {
                let newest = Checkpoints::of_run(&path).steps()?.last().copied();
                return Err(match newest {
                    Some(newest) => RunDirError::OnlyCheckpoints { path, newest },
                    None => RunDirError::NoRun { path, file: Self::WEIGHTS },
                });
            }
            run => run?,
        };
        match Starts::read(path)?.left_weights() {
            Some(step) => Err(RunDirError::LeftWeights { path: run.file(Self::WEIGHTS), step }),
            None => Ok(run),
        }
    }

    /// Opens the folder of a run that may have failed.
    ///
    /// # Errors
    /// When its run file is missing.
    pub fn of_run_file(path: &Path) -> Result<Self, RunDirError> {
        Self::with_files(path, &[Self::RUN_FILE])
    }

    fn with_files(path: &Path, files: &[&'static str]) -> Result<Self, RunDirError> {
        if Starts::read(path)?.is_being_removed() {
            return Err(RunDirError::BeingRemoved { path: path.to_owned() });
        }
        match files.iter().find(|file| !path.join(file).is_file()) {
            Some(file) => Err(RunDirError::NoRun { path: path.to_owned(), file }),
            None => Self::check_run_file(path).map(|()| Self::locked_by(path, None)),
        }
    }

    /// Refuses a run file that is a link out of the folder: an error would show lines of a file that the user has not named.
    fn check_run_file(path: &Path) -> Result<(), RunDirError> {
        let path = path.join(Self::RUN_FILE);
        check_is_of_folder(&path).map_err(|error| {
            let source = match error {
                InputError::Io(source) => source,
                error => io::Error::other(error),
            };
            RunDirError::Io { path, source }
        })
    }

    /// Steps of the run, if it has ended with its last one.
    ///
    /// # Errors
    /// When its summary is damaged.
    pub fn steps_of_finished(&self) -> Result<Option<u64>, RunDirError> {
        let path = self.file(Self::SUMMARY);
        match read_text(&path, Self::SUMMARY_BYTES_MAX) {
            Ok(text) => summary::steps_of_finished(&text)
                .map_err(|error| RunDirError::Summary { path, reason: error.to_string() }),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(RunDirError::Summary { path, reason: error.to_string() }),
        }
    }

    /// What the summary has of a run that is looked at again.
    ///
    /// # Errors
    /// When the run has not ended, or its summary is damaged.
    pub fn measured(&self) -> Result<Measured, RunDirError> {
        let path = self.file(Self::SUMMARY);
        match read_text(&path, Self::SUMMARY_BYTES_MAX) {
            Ok(text) => Measured::read(&text).map_err(|error| {
                let (line, column) = error.span.line_column();
                let reason = format!("line {line}, column {column}: {error}");
                RunDirError::Summary { path, reason }
            }),
            Err(error) if error.is_missing() => Err(RunDirError::Unfinished { path: self.path.clone() }),
            Err(error) => Err(RunDirError::Summary { path, reason: error.to_string() }),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a whole file, and replaces an existing one.
    ///
    /// # Errors
    /// When the system refuses, or something other than a file has the name.
    pub fn write(&self, name: &str, contents: &str) -> Result<(), RunDirError> {
        let path = self.file(name);
        let written = PartialFile::create(&path, Existing::Replaced);
        written.and_then(|file| file.finish_with(contents)).map_err(|source| RunDirError::Io { path, source })
    }

    /// The directory of a run file unless the user chooses another: `runs/NAME` for `NAME.json`, `runs/stdin` for `-`.
    pub fn default_path(run_file: &Path) -> PathBuf {
        let run_file = named(run_file);
        Path::new("runs").join(run_file.file_stem().unwrap_or(run_file.as_os_str()))
    }

    /// Checks that the folder is the one that this run holds, and that no other run has it. A lock that was removed is taken anew.
    ///
    /// # Errors
    /// When the folder was removed, or another has its name, or another run has begun in it.
    pub(super) fn check_is_held(&self) -> Result<(), RunDirError> {
        let path = self.path.clone();
        match self.lock.as_ref().map(|lock| lock.hold(|| !self.is_last_start())) {
            None | Some(Ok(StillHeld::Yes)) => Ok(()),
            Some(Ok(StillHeld::Anew)) => {
                let file = path.join(RunLock::FILE);
                self.warn(format!(
                    "{} was removed: the run has locked its folder anew, and goes on",
                    file.display()
                ));
                Ok(())
            }
            Some(Err(LockError::Held(holder))) => Err(RunDirError::Busy { path, holder }),
            Some(Err(LockError::Io(source))) => Err(RunDirError::Gone { path, source }),
        }
    }

    fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// Changes of the folder since the last call.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that this start goes on after a step, before it changes metrics, checkpoints or weights; the number of the start.
    ///
    /// # Errors
    /// When the list of starts cannot be read or written.
    pub(super) fn begin_start(&self, from: StepOfStart) -> Result<u64, RunDirError> {
        let number = Starts::add(&self.path, from)?;
        let _ = self.start.set(number);
        Ok(number)
    }

    /// Notes of which step the weights file is, once it is written; before, that this is not known.
    ///
    /// # Errors
    /// When the list of starts cannot be read or written.
    pub(super) fn note_weights(&self, step: Option<u64>) -> Result<(), RunDirError> {
        let Some(&start) = self.start.get() else { return Ok(()) };
        Ok(Starts::note_weights(&self.path, step.map(|step| StepOfStart { start, step }))?)
    }

    /// Whether no other start has begun here.
    fn is_last_start(&self) -> bool {
        let last = Starts::read(&self.path).map(|starts| starts.last());
        self.start.get().is_none_or(|start| last.is_ok_and(|last| last == *start))
    }

    /// The run file that [`RunDir::record`] wrote, though it may not be there any more.
    pub(super) fn recorded(&self) -> Option<&str> {
        self.recorded.get().map(String::as_str)
    }

    /// Adds lines to the metrics of a run that this one has copied.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn metrics_with(&self, lines: &str) -> Result<(), RunDirError> {
        let path = self.file(Self::METRICS);
        let added = open_own(&path, Own::AddedTo).and_then(|mut file| file.write_all(lines.as_bytes()));
        added.map_err(|source| RunDirError::Io { path, source })
    }

    /// Opens the metrics file to add to it, with the lines of the first `num_steps` steps that it has: what came after them is done again,
    /// the evaluation after the last of them too if the caller says so.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn metrics_until(&self, num_steps: u64, evaluates_again: bool) -> Result<MetricsFile, RunDirError> {
        let path = self.file(Self::METRICS);
        let kept = match num_steps {
            0 => String::new(),
            _ => MetricsFile::lines_until(&path, num_steps, evaluates_again)?,
        };
        // Written anew, so that a link of this name is replaced.
        self.write(Self::METRICS, &kept)?;
        MetricsFile::open(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_weights_is_not_a_finished_run() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(RunDir::RUN_FILE), "{}").unwrap();
        let error = RunDir::open(home.path()).unwrap_err();
        assert!(matches!(error, RunDirError::NoRun { file: RunDir::WEIGHTS, .. }));
    }
}
