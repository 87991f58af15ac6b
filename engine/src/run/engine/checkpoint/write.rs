//! A checkpoint is written while training goes on, or while it waits.
//!
//! ```text
//! ranks:               copy | write their files ......... |
//! the engine:    make folder | training, a question a step | gathers the files' records |
//! a thread:                                                                              | manifest, name, remove the oldest |
//! ```

use std::time::Duration;

use crossbeam::channel::{bounded, unbounded};

use super::AboutRun;
use super::writing::{Place, Stage, Writing};
use crate::run::checkpoint::{CheckpointError, Checkpoints, FileRecord, Manifest, ParameterRecord};
use crate::run::engine::command::{Answer, Command};
use crate::run::engine::error::EngineError;
use crate::run::engine::state_check::kinds;
use crate::run::engine::weights_file::parameters;
use crate::run::engine::{Engine, LossScaler};
use crate::run::executor::FileToWrite;

/// How long the engine waits for a disk before it asks whether another process waits too.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

impl Engine {
    /// Writes a checkpoint of the state after the last step, under its name once it is complete. After an error of a file the ranks go on,
    /// and earlier checkpoints are as they were.
    ///
    /// # Errors
    /// When a file cannot be written, [`EngineError::Elsewhere`] where that is so in another process alone, or a rank stops; those of a
    /// checkpoint that was started before.
    pub fn write_checkpoint(&mut self, to: &Checkpoints, about: &AboutRun) -> Result<(), EngineError> {
        self.finish_checkpoint()?;
        let place = self.place(to)?;
        let answers = self.ranks.ask(&Command::WriteState(place.folder.as_path().into()))?;
        let files = answers.into_iter().filter_map(|answer| match answer {
            Answer::Written(file) => Some(file),
            _ => None,
        });
        let (_, written) = bounded(0);
        let stage = Stage::Files { written, num_missing: 0, files: files.collect() };
        self.writing = Some(Writing { place, manifest: self.manifest(about), stage });
        self.finish_checkpoint()
    }

    /// As [`Engine::write_checkpoint`], and returns once every rank has copied what it writes; where the run file has no room for the copy,
    /// once it is written. [`Engine::poll_checkpoint`] tells of its end.
    ///
    /// # Errors
    /// As [`Engine::write_checkpoint`].
    pub fn start_checkpoint(&mut self, to: &Checkpoints, about: &AboutRun) -> Result<(), EngineError> {
        if !self.plan.run().checkpoint.is_copied() {
            return self.write_checkpoint(to, about);
        }
        self.finish_checkpoint()?;
        let place = self.place(to)?;
        let (report, written) = unbounded();
        let file = FileToWrite { folder: place.folder.clone(), written: report };
        self.ranks.ask(&Command::WriteCopy(file))?;
        let stage = Stage::Files { written, num_missing: self.ranks.local().len(), files: Vec::new() };
        self.writing = Some(Writing { place, manifest: self.manifest(about), stage });
        Ok(())
    }

    /// Whether no checkpoint is being written any more. Every process asks at the same time.
    ///
    /// # Errors
    /// When the one that was being written could not be, as [`Engine::write_checkpoint`].
    pub fn poll_checkpoint(&mut self) -> Result<bool, EngineError> {
        self.advance(Duration::ZERO)
    }

    /// Waits until no checkpoint is being written.
    ///
    /// # Errors
    /// As [`Engine::poll_checkpoint`].
    pub fn finish_checkpoint(&mut self) -> Result<(), EngineError> {
        while !self.advance(BETWEEN_QUESTIONS)? {}
        Ok(())
    }

    fn advance(&mut self, wait: Duration) -> Result<bool, EngineError> {
        let Some(mut writing) = self.writing.take() else { return Ok(true) };
        let is_waiting = writing.stage.is_waiting(wait);
        if self.in_any_process(is_waiting)? {
            self.writing = Some(writing);
            return Ok(false);
        }
        let Writing { place, manifest, stage } = writing;
        match stage {
            Stage::Files { files, .. } => {
                let files: Result<Vec<FileRecord>, CheckpointError> = files.into_iter().collect();
                match self.agree(files.map_err(EngineError::from)) {
                    Ok(files) => {
                        let files = self.gather_files(&place, files)?;
                        self.writing = Some(named(place, Manifest { files, ..manifest }));
                        Ok(false)
                    }
                    Err(error) => {
                        // A disk that is full should not stay so for what is of no use.
                        place.abandon();
                        Err(error)
                    }
                }
            }
            Stage::Name { done, .. } => {
                self.agree(done.unwrap_or(Ok(())).map_err(EngineError::from)).map(|()| true)
            }
        }
    }

    /// The records of all processes' files, in each of them.
    fn gather_files(
        &mut self,
        place: &Place,
        mut files: Vec<FileRecord>,
    ) -> Result<Vec<FileRecord>, EngineError> {
        files.iter_mut().for_each(|file| file.host = place.host.clone());
        // By rank, whichever was written first.
        files.sort_by(|one, other| one.name.cmp(&other.name));
        if self.ranks.are_all() {
            return Ok(files);
        }
        let message = serde_json::to_vec(&files).expect("a record has string keys and finite depth");
        let read = |message: &Vec<u8>| serde_json::from_slice::<Vec<FileRecord>>(message);
        let expected = "every process runs this program";
        let messages = self.ranks.together(|world| world.gather(message))?;
        let all = messages.iter().map(read).collect::<Result<Vec<_>, _>>().expect(expected).concat();
        let all = serde_json::to_vec(&all).expect("a record has string keys and finite depth");
        let all = self.ranks.together(|world| world.broadcast(all))?;
        Ok(read(&all).expect(expected))
    }

    fn manifest(&self, about: &AboutRun) -> Manifest {
        let grid = self.plan.grid();
        let parameter =
            |name: &str, shape: &[usize]| ParameterRecord { name: name.to_owned(), shape: shape.to_vec() };
        Manifest {
            loss_scale: self.loss_scaler.as_ref().map(LossScaler::state),
            text_checksum: about.text_checksum.clone(),
            grid: [grid.pipeline_degree, grid.data_degree],
            kinds: kinds(&self.plan),
            parameters: parameters(&self.plan).map(|spec| parameter(&spec.name, &spec.shape)).collect(),
            run: about.run.clone(),
            ..Manifest::new(self.position())
        }
    }
}

/// Writes the manifest and gives the folder its name, in a thread, if this process makes the folder.
fn named(place: Place, manifest: Manifest) -> Writing {
    let (report, named) = bounded(1);
    match place.new.clone() {
        Some(new) => {
            let written = manifest.clone();
            let name = move || {
                let _ = report.send(new.finish(&written));
            };
            let inline = name.clone();
            if std::thread::Builder::new().name("checkpoint".to_owned()).spawn(name).is_err() {
                inline();
            }
        }
        None => report.send(Ok(())).expect("there is room for it"),
    }
    Writing { place, manifest, stage: Stage::Name { named, done: None } }
}
