//! A checkpoint is written while training goes on, or while it waits.
//!
//! ```text
//! ranks:               copy | write their files ......... |
//! the engine:    make folder | training, a question a step | gathers the files' records |
//! a thread:                                                                              | manifest | name | remove the oldest |
//! ```

use std::time::Duration;

use crossbeam::channel::{bounded, unbounded};
use pipezero_models::parameter::ParameterSpec;

use super::AboutRun;
use super::writing::{Awaited, Files, Place, Work, Writing};
use crate::checkpoint::{CheckpointError, Checkpoints, FileRecord, Manifest, NewCheckpoint, ParameterRecord};
use crate::engine::command::{Answer, Command};
use crate::engine::error::EngineError;
use crate::engine::state_check::kinds;
use crate::engine::weights_file::parameters_and_frozen;
use crate::engine::{Engine, LossScaler};
use crate::executor::FileToWrite;

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
        let files = Files { written, num_missing: 0, found: files.collect() };
        self.writing = Some(self.writing_of(place, files, about));
        self.finish_checkpoint()
    }

    /// As [`Engine::write_checkpoint`], and returns once every rank has copied what it writes; where the run file has no room for the copy,
    /// once it is written. [`Engine::poll_checkpoint`] tells of its end; one that is not finished when the engine is dropped has no name.
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
        let files = Files { written, num_missing: self.ranks.local().len(), found: Vec::new() };
        self.writing = Some(self.writing_of(place, files, about));
        Ok(())
    }

    fn writing_of(&self, place: Place, files: Files, about: &AboutRun) -> Writing {
        let manifest = Box::new(Manifest { place: place.number, ..self.manifest(about) });
        Writing { place, awaited: Awaited::Files { files, manifest } }
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

    /// Does the next thing, if this process and all others have what they wait for; whether all is done.
    fn advance(&mut self, wait: Duration) -> Result<bool, EngineError> {
        let Some(Writing { place, mut awaited }) = self.writing.take() else { return Ok(true) };
        let is_waiting = awaited.is_waiting(wait);
        if self.in_any_process(is_waiting)? {
            self.writing = Some(Writing { place, awaited });
            return Ok(false);
        }
        let awaited = match awaited {
            Awaited::Files { files, manifest } => self.write_manifest(&place, files, *manifest),
            Awaited::Manifest(written) => self.give_name(&place, written),
            // Only the process that could not remove something has this error, and the checkpoint is complete.
            Awaited::Removal(removed) => return removed.result().map(|()| true).map_err(EngineError::from),
        };
        match awaited {
            Ok(awaited) => {
                self.writing = Some(Writing { place, awaited });
                Ok(false)
            }
            Err(error) => {
                // A disk that is full should not stay so for what is of no use.
                place.abandon();
                Err(error)
            }
        }
    }

    fn write_manifest(
        &mut self,
        place: &Place,
        files: Files,
        manifest: Manifest,
    ) -> Result<Awaited, EngineError> {
        let files: Result<Vec<FileRecord>, CheckpointError> = files.found.into_iter().collect();
        let files = self.agree(files.map_err(EngineError::from))?;
        let files = self.gather_files(place, files)?;
        let manifest = Manifest { files, ..manifest };
        Ok(Awaited::Manifest(Work::start(place, move |new| new.write_manifest(&manifest))))
    }

    /// Only where every folder is complete any gets its name, and only where all have it anything is removed.
    fn give_name(&mut self, place: &Place, written: Work) -> Result<Awaited, EngineError> {
        self.agree(written.result().map_err(EngineError::from))?;
        let named = place.new.as_ref().map_or(Ok(()), NewCheckpoint::give_name);
        let named = self.agree(named.map_err(EngineError::from));
        if let (Err(_), Some(new)) = (&named, &place.new) {
            new.clone().take_name_away();
        }
        named?;
        Ok(Awaited::Removal(Work::start(place, |new| new.remove_oldest())))
    }

    /// The records of all processes' files, in each of them.
    fn gather_files(
        &mut self,
        place: &Place,
        mut files: Vec<FileRecord>,
    ) -> Result<Vec<FileRecord>, EngineError> {
        for file in &mut files {
            (file.place, file.host) = (place.number, place.host.clone());
        }
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
        let parameter = |(spec, is_frozen): (&ParameterSpec, bool)| ParameterRecord {
            name: spec.name.clone(),
            shape: spec.shape.clone(),
            is_frozen,
        };
        Manifest {
            loss_scale: self.loss_scaler.as_ref().map(LossScaler::state),
            text_checksum: about.text_checksum.clone(),
            start: about.start,
            grid: [grid.pipeline_degree, grid.data_degree],
            kinds: kinds(&self.plan),
            parameters: parameters_and_frozen(&self.plan).map(parameter).collect(),
            run: about.run.clone(),
            ..Manifest::new(self.position())
        }
    }
}
