//! When the loop keeps the state of the run.

use std::time::{Duration, Instant};

use super::error::TrainingError;
use super::observer::{Observer, Work};
use super::run_dir::RunDir;
use crate::config::{CheckpointConfig, OnCheckpointError, Run};
use crate::run::checkpoint::Checkpoints;
use crate::run::engine::{AboutRun, Engine, EngineError};

/// Writes the checkpoints of a run.
pub(super) struct CheckpointKeeper {
    config: CheckpointConfig,
    checkpoints: Checkpoints,
    about: AboutRun,
    /// The step of the newest one; 0 without any.
    newest: u64,
    /// The step after which one was tried last.
    tried: u64,
    /// When the last one was written, or tried.
    last: Instant,
}

impl CheckpointKeeper {
    /// Of a run that has done `step` steps.
    pub(super) fn new(directory: &RunDir, run: &Run, step: u64, text_checksum: Option<String>) -> Self {
        let checkpoints = Checkpoints::of_run(directory.path());
        let run_json = serde_json::to_value(run).expect("a run has string keys and finite depth");
        let about = AboutRun { run: run_json, text_checksum };
        Self { config: run.checkpoint, checkpoints, about, newest: step, tried: step, last: Instant::now() }
    }

    /// Whether the run file asks for any.
    pub(super) fn is_asked_for(&self) -> bool {
        self.config.every.is_some() || self.config.interval.is_some()
    }

    /// Whether one is to be written after a step. The clock of the process of rank 0 decides for all.
    pub(super) fn is_due(&self, step: u64, engine: &mut Engine) -> Result<bool, EngineError> {
        let by_steps = self.config.every.is_some_and(|every| step.is_multiple_of(every));
        let Some(interval) = self.config.interval else { return Ok(by_steps) };
        let has_passed = |elapsed: Duration| engine.has_rank_0() && elapsed >= interval;
        let by_time = has_passed(self.last.elapsed());
        Ok(engine.in_any_process(by_time)? || by_steps)
    }

    /// Writes the state to a folder, unless the newest checkpoint of the run directory has it.
    pub(super) fn write_to(&self, directory: &RunDir, engine: &mut Engine) -> Result<(), EngineError> {
        let to = Checkpoints::of_run(directory.path());
        if to == self.checkpoints && engine.position().step == self.newest {
            return Ok(());
        }
        engine.write_checkpoint(&to, &self.about)
    }

    /// Writes the state after a step, unless that was tried already, and removes the oldest.
    pub(super) fn write(
        &mut self,
        step: u64,
        engine: &mut Engine,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainingError> {
        if step == self.tried {
            return Ok(());
        }
        self.tried = step;
        observer.begins(Work::Checkpoint);
        let written = engine.write_checkpoint(&self.checkpoints, &self.about).and_then(|()| {
            let removed = if engine.has_rank_0() { self.checkpoints.keep(self.config.keep) } else { Ok(()) };
            engine.agree(removed.map_err(EngineError::from))
        });
        self.last = Instant::now();
        match written {
            Ok(()) => self.newest = step,
            Err(error @ (EngineError::Checkpoint(_) | EngineError::Elsewhere))
                if self.config.on_error == OnCheckpointError::Continue =>
            {
                observer.checkpoint_failed(step, &error);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
