//! When the loop keeps the state of the run.

use std::time::{Duration, Instant};

use pipezero_config::{CheckpointConfig, OnCheckpointError, Run};
use pipezero_run::checkpoint::{CheckpointError, Checkpoints};
use pipezero_run::engine::{AboutRun, Engine, EngineError};

use super::error::TrainingError;
use super::observer::{Observer, Work};
use super::run_dir::RunDir;

/// Writes the checkpoints of a run.
pub(super) struct CheckpointKeeper {
    config: CheckpointConfig,
    checkpoints: Checkpoints,
    about: AboutRun,
    /// The step of the newest one; 0 without any.
    newest: u64,
    /// The step after which one was tried last.
    tried: u64,
    /// The step after which the one was started that is being written.
    writing: Option<u64>,
    /// When the last one was started.
    last: Instant,
}

impl CheckpointKeeper {
    /// For a run that has done `step` steps. Checkpoints of `unreadable` steps are not removed.
    ///
    /// # Errors
    /// When the folder of its earlier checkpoints cannot be read.
    pub(super) fn new(
        directory: &RunDir,
        run: &Run,
        step: u64,
        about: AboutRun,
        unreadable: Vec<u64>,
    ) -> Result<Self, EngineError> {
        let checkpoints =
            Checkpoints::of_run(directory.path()).keeping(run.checkpoint.keep).sparing(unreadable);
        let checkpoints = checkpoints.after(step)?;
        Ok(Self {
            config: run.checkpoint,
            checkpoints,
            about,
            newest: step,
            tried: step,
            writing: None,
            last: Instant::now(),
        })
    }

    /// The step of the newest one that is whole.
    pub(super) fn newest(&self) -> Option<u64> {
        (self.newest > 0).then_some(self.newest)
    }

    /// Whether one is to be written after a step. The clock of the process of rank 0 decides for all.
    pub(super) fn is_due(&self, step: u64, engine: &mut Engine) -> Result<bool, EngineError> {
        let by_steps = self.config.every.is_some_and(|every| step.is_multiple_of(every));
        let Some(interval) = self.config.interval else { return Ok(by_steps) };
        let has_passed = |elapsed: Duration| engine.has_rank_0() && elapsed >= interval;
        let by_time = has_passed(self.last.elapsed());
        Ok(engine.in_any_process(by_time)? || by_steps)
    }

    /// Writes the state to a folder, unless the newest checkpoint of the run directory has it. Every other one stays: the state of a run that
    /// an error ended may be the worst of them.
    pub(super) fn write_to(&mut self, directory: &RunDir, engine: &mut Engine) -> Result<(), EngineError> {
        if let Some(step) = self.writing.take()
            && engine.finish_checkpoint().is_ok()
        {
            self.note_newest(step);
        }
        let to = Checkpoints::of_run(directory.path());
        let step = engine.position().step;
        if to.at(step) == self.checkpoints.at(step) && step == self.newest {
            return Ok(());
        }
        engine.write_checkpoint(&to, &self.about)
    }

    /// Writes the state of a run that ends before its last step: nothing else has it, so an error that keeps it from being written ends the run.
    pub(super) fn start_of_interrupted(
        &mut self,
        step: u64,
        engine: &mut Engine,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainingError> {
        self.finish(engine, observer)?;
        self.config.on_error = OnCheckpointError::Stop;
        if step != self.newest {
            self.tried = self.newest;
        }
        self.start(step, engine, observer)
    }

    /// Writes the state after a step, unless that was tried already: while training goes on, where ranks have a copy of it.
    pub(super) fn start(
        &mut self,
        step: u64,
        engine: &mut Engine,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainingError> {
        self.finish(engine, observer)?;
        if step == self.tried {
            return Ok(());
        }
        self.tried = step;
        observer.begins(Work::Checkpoint);
        self.last = Instant::now();
        self.writing = Some(step);
        let started = engine.start_checkpoint(&self.checkpoints, &self.about);
        self.conclude(started.map(|()| false), observer)
    }

    /// Asks what has become of the one that is being written.
    pub(super) fn poll(
        &mut self,
        engine: &mut Engine,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainingError> {
        if self.writing.is_none() {
            return Ok(());
        }
        self.conclude(engine.poll_checkpoint(), observer)
    }

    /// Waits for the one that is being written.
    pub(super) fn finish(
        &mut self,
        engine: &mut Engine,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainingError> {
        if self.writing.is_none() {
            return Ok(());
        }
        observer.begins(Work::Checkpoint);
        self.conclude(engine.finish_checkpoint().map(|()| true), observer)
    }

    /// Notes what has become of the one that is being written; an error ends the run only if its rule says so.
    fn conclude(
        &mut self,
        is_written: Result<bool, EngineError>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainingError> {
        let Some(step) = self.writing else { return Ok(()) };
        match is_written {
            Ok(false) => return Ok(()),
            Ok(true) => self.note_newest(step),
            Err(EngineError::Checkpoint(error @ CheckpointError::NotRemoved(_))) => {
                self.note_newest(step);
                observer.old_checkpoint_stays(&error);
            }
            Err(error @ (EngineError::Checkpoint(_) | EngineError::Elsewhere))
                if self.config.on_error == OnCheckpointError::Continue =>
            {
                observer.checkpoint_failed(step, &error);
            }
            Err(error) => {
                self.writing = None;
                return Err(error.into());
            }
        }
        self.writing = None;
        Ok(())
    }

    fn note_newest(&mut self, step: u64) {
        self.newest = step;
        self.checkpoints = self.checkpoints.clone().without_superseded();
    }
}
