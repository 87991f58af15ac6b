//! Taking a folder for a run: whether it may be made, replaced or gone on with, and how the run that was there is removed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pipezero_config::hugging_face::Origin;
use pipezero_files::folder;
use pipezero_files::partial::{PartialFile, can_be_replaced};
use pipezero_measure::trace::TraceFolder;
use pipezero_run::checkpoint::{Checkpoints, Starts};

use super::make_folder::{can_be_made, make_all};
use super::rank_log::RankLog;
use super::run_dir::RunDir;
use super::run_dir_error::{RunDirError, Ways};
use super::run_lock::{LockError, RunLock};

/// What is at the path of a new run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing, an empty folder, or one with nothing but the lock, the list of starts and logs.
    Free,
    /// An earlier run, which is to be replaced or gone on with.
    EarlierRun,
    /// The rest of a run that was being replaced when the process that replaced it was killed. The next start removes it.
    BeingRemoved,
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
        if Self::check_contents(path, claim)? != Place::Free {
            remove_run(path)?;
        }
        Ok(Self::locked_by(path, Some(lock)))
    }

    /// The part of a run directory on a host that does not see that of rank 0: where its ranks keep their checkpoints. What an earlier run has left there is treated
    /// as it is where rank 0 is.
    ///
    /// # Errors
    /// As [`RunDir::create`] and [`RunDir::resume`].
    pub fn part(path: &Path, claim: Claim) -> Result<Self, RunDirError> {
        match claim {
            Claim::New => Self::create(path, false),
            Claim::Replace => Self::create(path, true),
            Claim::GoOn => Self::resume(path),
        }
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
        if Self::check(path, Claim::GoOn)? != Place::EarlierRun {
            return Self::create(path, false);
        }
        let run = Self::locked_by(path, Some(Self::locked(path)?));
        // What a killed run had begun to write: nobody else writes here now.
        let names = Self::FILES.into_iter().chain(Self::BESIDE_TOKENIZER).chain(Origin::FILES);
        for name in names.chain([Starts::FILE]) {
            let file = run.file(name);
            PartialFile::remove_leftover(&file)
                .map_err(|source| RunDirError::Io { path: PartialFile::partial_of(&file), source })?;
        }
        Checkpoints::of_run(path).remove_leftovers()?;
        Ok(run)
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
            Ok(name) => Self::is_beside_a_run(&name) || name == *RankLog::FOLDER && has_logs_alone(),
            Err(_) => false,
        };
        if path.is_dir() && Starts::read(path)?.is_being_removed() {
            return Self::check_all_is_written(path).map(|()| Place::BeingRemoved);
        }
        if path.is_dir() && fs::read_dir(path).map_err(io)?.all(|entry| is_free(&entry)) {
            return Ok(Place::Free);
        }
        if claim == Claim::New {
            let may = |claim| Self::check_contents(path, claim).is_ok();
            let ways = Ways { resume: may(Claim::GoOn), overwrite: may(Claim::Replace) };
            return Err(RunDirError::Exists { path: path.to_owned(), ways });
        }
        let not_a_run = |reason: String| RunDirError::NotARun { path: path.to_owned(), reason };
        // A run writes its metrics first. A run file proves nothing: it may be the user's own.
        let has_checkpoints = || Checkpoints::of_run(path).steps().is_ok_and(|steps| !steps.is_empty());
        // On hosts that do not see the folder of rank 0 a run writes checkpoints alone, and may have been killed before the first was complete.
        let is_part = || path.join(Checkpoints::NAME).is_dir() && Self::check_all_is_written(path).is_ok();
        if !(path.join(Self::METRICS).is_file() || has_checkpoints() || is_part()) {
            let file = Self::METRICS;
            return Err(not_a_run(format!("it has no {file}, so it may not be a run directory")));
        }
        // A run that goes on removes nothing that others wrote.
        if claim == Claim::GoOn {
            return Self::check_can_be_written(path).map(|()| Place::EarlierRun);
        }
        Self::check_all_is_written(path).map(|()| Place::EarlierRun)
    }

    /// Refuses a folder that holds something which no run wrote.
    fn check_all_is_written(path: &Path) -> Result<(), RunDirError> {
        let io = |source| RunDirError::Io { path: path.to_owned(), source };
        let not_a_run = |reason: String| RunDirError::NotARun { path: path.to_owned(), reason };
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
            } else if !name.to_str().is_some_and(Self::is_written) || entry.file_type().map_err(io)?.is_dir()
            {
                return Err(not_a_run(format!("it holds `{}`, which no run wrote", name.display())));
            }
        }
        Ok(())
    }

    /// Refuses a folder in which something that is no file has the name of a file that the run writes, the weights at its end among them.
    fn check_can_be_written(path: &Path) -> Result<(), RunDirError> {
        Self::FILES.iter().map(|name| path.join(name)).try_for_each(|path| {
            can_be_replaced(&path).map_err(|error| {
                let source = io::Error::new(error.kind(), format!("{error}; move it away"));
                RunDirError::Io { path, source }
            })
        })
    }

    /// Whether a run writes a file of this name, whole or while it is being written.
    fn is_written(name: &str) -> bool {
        let lists = [&Self::FILES[..], &Self::BESIDE_TOKENIZER, &Origin::FILES];
        lists.iter().any(|list| list.contains(&whole(name))) || Self::is_beside_a_run(OsStr::new(name))
    }

    /// Whether a file of this name is of the folder rather than of the run in it.
    fn is_beside_a_run(name: &OsStr) -> bool {
        name == RunLock::FILE || name.to_str().is_some_and(|name| whole(name) == Starts::FILE)
    }
}

/// The name of a file that may be still being written.
fn whole(name: &str) -> &str {
    name.strip_suffix(PartialFile::ENDING).unwrap_or(name)
}

/// Removes the run of a folder that this process has locked. First it is marked, in one step, so that nothing of it is read any more, whenever this process
/// ends; the mark goes last. The folder itself stays: it may be the current folder, or a link to a larger disk.
fn remove_run(path: &Path) -> Result<(), RunDirError> {
    let io = |source| RunDirError::Io { path: path.to_owned(), source };
    Starts::mark_removal(path)?;
    let entries: Vec<fs::DirEntry> = fs::read_dir(path).map_err(io)?.collect::<Result<_, _>>().map_err(io)?;
    for entry in entries.iter().filter(|entry| !RunDir::is_beside_a_run(&entry.file_name())) {
        let path = entry.path();
        // Checkpoints may lie on another disk, behind a link. Any other link is removed itself, whatever it leads to. Folders are those of traced steps, logs and
        // checkpoints, and they hold nothing else.
        let removed = match entry.file_name() == *Checkpoints::NAME {
            true => folder::remove(&path),
            false => folder::remove_itself(&path),
        };
        removed.map_err(|source| RunDirError::Io { path, source })?;
    }
    folder::sync(path).and_then(|()| Starts::remove(path)).map_err(io)
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

    /// As a process leaves it that is killed before its first checkpoint is complete, on a host that does not see the folder of rank 0.
    #[test]
    fn a_part_of_a_run_directory_can_be_gone_on_with_and_replaced() {
        let home = tempfile::tempdir().unwrap();
        RankLog::open(home.path(), 3, false).unwrap();
        fs::create_dir_all(home.path().join("checkpoints/step-00000001.partial")).unwrap();
        assert!(matches!(RunDir::check(home.path(), Claim::New), Err(RunDirError::Exists { .. })));
        drop(RunDir::part(home.path(), Claim::GoOn).unwrap());
        assert!(!home.path().join("checkpoints/step-00000001.partial").exists());
        drop(RunDir::part(home.path(), Claim::Replace).unwrap());
        assert!(!home.path().join("checkpoints").exists());
        fs::create_dir(home.path().join("checkpoints")).unwrap();
        fs::write(home.path().join("checkpoints/thesis.txt"), "years of work").unwrap();
        assert!(matches!(RunDir::part(home.path(), Claim::Replace), Err(RunDirError::NotARun { .. })));
    }
}
