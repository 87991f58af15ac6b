//! The folder that a run writes: its run file and schedule, metrics, weights and summary. Never overwritten unasked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pipezero_config::hugging_face::Origin;
use pipezero_files::folder;
use pipezero_files::input::{named, read_text};
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_measure::trace::TraceFolder;
use pipezero_run::checkpoint::Checkpoints;
use pipezero_tokens::Tokenizer;

use super::metrics_file::MetricsFile;
use super::rank_log::RankLog;
use super::run_dir_error::{RunDirError, Ways};
use super::run_lock::{LockError, RunLock};
use super::summary::{self, Measured};

/// A run's folder.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    /// The run file that was written last.
    pub(super) recorded: OnceLock<String>,
    /// Held by a run that writes the folder.
    lock: Option<RunLock>,
}

/// What is at the path of a new run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing, or an empty folder.
    Free,
    /// An earlier run, which is to be replaced.
    EarlierRun,
}

/// What a run is about to do with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// To write a new one.
    New,
    /// To replace the run that is there, if one is.
    Replace,
    /// To go on with the run that is there, if one is; checkpoints alone will do.
    GoOn,
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
    /// Everything that a run writes, but for [`RunDir::BESIDE_TOKENIZER`] and [`Origin::FILES`].
    const FILES: [&str; 8] = [
        Self::RUN_FILE,
        Self::SCHEDULE,
        Self::TOKENIZER,
        Self::METRICS,
        Self::WEIGHTS,
        Self::SUMMARY,
        Self::TRACE,
        Self::COMPARISON,
    ];

    /// Makes a new folder; with `overwrite` an earlier run's folder is replaced.
    ///
    /// # Errors
    /// When it exists and is not to be replaced, or was not written by a run, or the system refuses.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, RunDirError> {
        let io = |source| RunDirError::Io { path: path.to_owned(), source };
        let claim = if overwrite { Claim::Replace } else { Claim::New };
        Self::check(path, claim)?;
        make_all(path).map_err(io)?;
        let lock = Self::locked(path)?;
        // What is here now, with the lock, is what counts.
        if Self::check_contents(path, claim)? == Place::EarlierRun {
            // The folder itself stays: it may be the current folder, or a link to a larger disk.
            let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(io)?.collect();
            let mut entries: Vec<PathBuf> =
                entries.map_err(io)?.into_iter().map(|entry| entry.path()).collect();
            entries.retain(|entry| !entry.ends_with(RunLock::FILE));
            // First the logs, which are the least worth if they cannot be removed and the run is refused. Last the file by which the folder is
            // known as a run's, for one who is killed here and does it again.
            entries.sort_by_key(|entry| (!entry.ends_with(RankLog::FOLDER), entry.ends_with(Self::METRICS)));
            for entry in entries {
                // Folders are those of traced steps, logs and checkpoints, and they hold nothing else.
                folder::remove(&entry).map_err(|source| RunDirError::Io { path: entry, source })?;
            }
        }
        Ok(Self::locked_by(path, Some(lock)))
    }

    fn locked(path: &Path) -> Result<RunLock, RunDirError> {
        RunLock::take(path).map_err(|error| match error {
            LockError::Held(holder) => RunDirError::Busy { path: path.to_owned(), holder },
            LockError::Io(source) => RunDirError::Io { path: path.join(RunLock::FILE), source },
        })
    }

    /// The folder of a run that is to go on; a new one where there is none yet.
    ///
    /// # Errors
    /// When something else than a run is there, or the system refuses.
    pub fn resume(path: &Path) -> Result<Self, RunDirError> {
        if Self::check(path, Claim::GoOn)? == Place::Free {
            return Self::create(path, false);
        }
        let run = Self::locked_by(path, Some(Self::locked(path)?));
        // What a killed run had begun to write: nobody else writes here now.
        for name in Self::FILES.into_iter().chain(Self::BESIDE_TOKENIZER).chain(Origin::FILES) {
            let file = run.file(name);
            PartialFile::remove_leftover(&file)
                .map_err(|source| RunDirError::Io { path: PartialFile::partial_of(&file), source })?;
        }
        Ok(run)
    }

    /// The folder of a run whose files another process writes, the one of rank 0.
    pub fn written_elsewhere(path: &Path) -> Self {
        Self::locked_by(path, None)
    }

    fn locked_by(path: &Path, lock: Option<RunLock>) -> Self {
        Self { path: path.to_owned(), recorded: OnceLock::new(), lock }
    }

    /// Whether [`RunDir::create`] could make the folder; leaves nothing behind.
    ///
    /// # Errors
    /// As [`RunDir::create`].
    pub fn check(path: &Path, claim: Claim) -> Result<Place, RunDirError> {
        Self::links(path)?;
        // Not `exists`, which is false for a link whose target is gone.
        match fs::symlink_metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return can_be_made(path)
                    .map(|()| Place::Free)
                    .map_err(|source| RunDirError::Unwritable { path: path.to_owned(), source });
            }
            Err(source) => return Err(RunDirError::Unwritable { path: path.to_owned(), source }),
        }
        let place = Self::check_contents(path, claim)?;
        match RunLock::is_held(path) {
            Some(holder) => Err(RunDirError::Busy { path: path.to_owned(), holder }),
            None => Ok(place),
        }
    }

    /// Links to folders of this user that a run with this directory follows: the directory itself, and its checkpoints. Each with the folder that it
    /// leads to.
    ///
    /// # Errors
    /// When a link is another user's, or leads to a folder of another user.
    pub fn links(path: &Path) -> Result<Vec<(PathBuf, PathBuf)>, RunDirError> {
        let mut links = Vec::new();
        for path in [path.to_owned(), path.join(Checkpoints::NAME)] {
            let target = folder::followed(&path);
            let target = target.map_err(|source| RunDirError::Io { path: path.clone(), source })?;
            links.extend(target.map(|target| (path, target)));
        }
        Ok(links)
    }

    /// What is in a folder, and whether it may be replaced.
    fn check_contents(path: &Path, claim: Claim) -> Result<Place, RunDirError> {
        let io = |source| RunDirError::Io { path: path.to_owned(), source };
        // Other processes of a job leave their logs on their hosts, where the process of rank 0 may be next time.
        let has_logs_alone = || RankLog::first_unknown(path).is_ok_and(|unknown| unknown.is_none());
        let is_free = |entry: &io::Result<fs::DirEntry>| match entry.as_ref().map(fs::DirEntry::file_name) {
            Ok(name) => name == *RunLock::FILE || name == *RankLog::FOLDER && has_logs_alone(),
            Err(_) => false,
        };
        if path.is_dir() && fs::read_dir(path).map_err(io)?.all(|entry| is_free(&entry)) {
            return Ok(Place::Free);
        }
        if claim == Claim::New {
            let may = |claim| Self::check_contents(path, claim).is_ok();
            let ways = Ways { resume: may(Claim::GoOn), overwrite: may(Claim::Replace) };
            return Err(RunDirError::Exists { path: path.to_owned(), ways });
        }
        let not_a_run = |reason: String| RunDirError::NotARun { path: path.to_owned(), reason };
        // The first that a run writes; a run file alone may be the user's own.
        let has_checkpoints = || Checkpoints::of_run(path).steps().is_ok_and(|steps| !steps.is_empty());
        if !(path.join(Self::METRICS).is_file() || claim == Claim::GoOn && has_checkpoints()) {
            let file = Self::METRICS;
            return Err(not_a_run(format!("it has no {file}, so it may not be a run directory")));
        }
        // A run that goes on removes nothing that others wrote.
        if claim == Claim::GoOn {
            return Ok(Place::EarlierRun);
        }
        for entry in fs::read_dir(path).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name();
            if name == *Checkpoints::NAME {
                let unknown = Checkpoints::of_run(path).first_unknown();
                if let Some(unknown) = unknown.map_err(|error| io(io::Error::other(error)))? {
                    return Err(not_a_run(format!(
                        "it holds `{unknown}` among its checkpoints, which no run wrote"
                    )));
                }
            } else if name == *TraceFolder::NAME {
                if let Some(unknown) = TraceFolder::of_run(path).first_unknown().map_err(io)? {
                    return Err(not_a_run(format!("it holds `{}`, which no run wrote", unknown.display())));
                }
            } else if name == *RankLog::FOLDER {
                if let Some(unknown) = RankLog::first_unknown(path).map_err(io)? {
                    return Err(not_a_run(format!("it holds `{}`, which no run wrote", unknown.display())));
                }
            } else if !name.to_str().is_some_and(Self::is_written) {
                return Err(not_a_run(format!("it holds `{}`, which no run wrote", name.display())));
            }
        }
        Ok(Place::EarlierRun)
    }

    /// Checks that a run which starts at its first step replaces nothing: weights of steps that an earlier one did.
    ///
    /// # Errors
    /// When there are such weights.
    pub(super) fn check_nothing_is_lost(path: &Path) -> Result<(), RunDirError> {
        let has_steps = fs::metadata(path.join(Self::METRICS)).is_ok_and(|file| file.len() > 0);
        match has_steps && path.join(Self::WEIGHTS).exists() {
            true => Err(RunDirError::WeightsAlone { path: path.to_owned() }),
            false => Ok(()),
        }
    }

    /// Whether a run writes a file of this name, whole or while it is being written.
    fn is_written(name: &str) -> bool {
        let whole = name.strip_suffix(PartialFile::ENDING).unwrap_or(name);
        let lists = [&Self::FILES[..], &Self::BESIDE_TOKENIZER, &Origin::FILES];
        lists.iter().any(|list| list.contains(&whole)) || name == RunLock::FILE
    }

    /// Opens the folder of a finished run.
    ///
    /// # Errors
    /// When its run file or weights are missing.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        Self::with_files(path, &[Self::RUN_FILE, Self::WEIGHTS])
    }

    /// Opens the folder of a run that may have failed.
    ///
    /// # Errors
    /// When its run file is missing.
    pub fn of_run_file(path: &Path) -> Result<Self, RunDirError> {
        Self::with_files(path, &[Self::RUN_FILE])
    }

    fn with_files(path: &Path, files: &[&'static str]) -> Result<Self, RunDirError> {
        match files.iter().find(|file| !path.join(file).is_file()) {
            Some(file) => Err(RunDirError::NoRun { path: path.to_owned(), file }),
            None => Ok(Self::locked_by(path, None)),
        }
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

    /// Checks that the folder is the one that this run holds.
    ///
    /// # Errors
    /// When it was removed, or another has its name.
    pub(super) fn check_is_there(&self) -> Result<(), RunDirError> {
        let checked = self.lock.as_ref().map_or(Ok(()), RunLock::check_is_there);
        checked.map_err(|source| RunDirError::Gone { path: self.path.clone(), source })
    }

    /// The run file that [`RunDir::record`] wrote, though it may not be there any more.
    pub(super) fn recorded(&self) -> Option<&str> {
        self.recorded.get().map(String::as_str)
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

/// Makes a folder and those that it lies in, and removes what was made.
fn can_be_made(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    let made = make_all(path);
    for folder in missing {
        // What could not be made is not there to be removed.
        let _ = fs::remove_dir(folder);
    }
    made
}

/// Makes a folder and those that it lies in. Another process that tries whether its own can be made, for another engine of the job, may remove one of them
/// meanwhile: then they are made again.
fn make_all(path: &Path) -> io::Result<()> {
    const NUM_TRIES: usize = 100;
    let mut made = fs::create_dir_all(path);
    for _ in 1..NUM_TRIES {
        match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made = fs::create_dir_all(path),
            made => return made,
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_may_try_folders_beside_each_other_at_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("of-all");
        std::thread::scope(|scope| {
            for engine in ["a", "b"] {
                let own = folder.join(engine);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        assert_eq!(RunDir::check(&own, Claim::New).unwrap(), Place::Free);
                    }
                });
            }
        });
        // A folder around both may stay, which one of them found there.
        assert!(fs::read_dir(&folder).map_or(true, |mut inside| inside.next().is_none()));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_refused_before_and_nothing_is_left() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "a thesis").unwrap();
        for path in ["file/run", &"n".repeat(300), &format!("deep/{}", "n".repeat(300))] {
            let checked = RunDir::check(&home.path().join(path), Claim::New);
            assert!(matches!(checked, Err(RunDirError::Unwritable { .. })), "{checked:?}");
        }
        assert_eq!(RunDir::check(&home.path().join("deep/down"), Claim::New).unwrap(), Place::Free);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_is_replaced_only_when_asked_and_only_if_a_run_wrote_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run");
        let first = RunDir::create(&path, false).unwrap();
        let run = RunDir::written_elsewhere(&path);
        run.write(RunDir::RUN_FILE, "{}").unwrap();
        assert!(matches!(RunDir::create(&path, false), Err(RunDirError::Exists { .. })));
        drop(run.metrics_until(0, false).unwrap());
        // The first still writes.
        for refused in [RunDir::create(&path, true), RunDir::resume(&path)] {
            assert!(matches!(refused, Err(RunDirError::Busy { .. })), "{refused:?}");
        }
        fs::remove_file(run.file(RunDir::METRICS)).unwrap();
        drop(first);
        // A file of that name may also be somebody else's.
        assert!(matches!(RunDir::create(&path, true), Err(RunDirError::NotARun { .. })));
        drop(run.metrics_until(0, false).unwrap());
        RunDir::create(&path, true).unwrap();
        assert!(!path.join(RunDir::RUN_FILE).exists());
        run.write(RunDir::RUN_FILE, "{}").unwrap();
        drop(run.metrics_until(0, false).unwrap());
        fs::write(path.join("thesis.txt"), "years of work").unwrap();
        assert!(matches!(RunDir::create(&path, true), Err(RunDirError::NotARun { .. })));
        for file in ["thesis.txt", RunDir::RUN_FILE, RunDir::METRICS] {
            assert!(path.join(file).exists(), "{file}");
        }
    }

    #[test]
    fn a_folder_that_has_logs_of_other_ranks_alone_is_free() {
        let home = tempfile::tempdir().unwrap();
        RankLog::open(home.path(), 3, false).unwrap();
        assert_eq!(RunDir::check(home.path(), Claim::New).unwrap(), Place::Free);
        fs::write(home.path().join("logs/thesis.txt"), "years of work").unwrap();
        assert!(matches!(RunDir::check(home.path(), Claim::New), Err(RunDirError::Exists { .. })));
        drop(RunDir::written_elsewhere(home.path()).metrics_until(0, false).unwrap());
        assert!(matches!(RunDir::check(home.path(), Claim::Replace), Err(RunDirError::NotARun { .. })));
        fs::remove_file(home.path().join("logs/thesis.txt")).unwrap();
        RunDir::create(home.path(), true).unwrap();
        assert!(!home.path().join("logs").exists());
    }

    #[test]
    fn a_folder_without_weights_is_not_a_finished_run() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(RunDir::RUN_FILE), "{}").unwrap();
        let error = RunDir::open(home.path()).unwrap_err();
        assert!(matches!(error, RunDirError::NoRun { file: RunDir::WEIGHTS, .. }));
    }
}
