//! The state of all ranks: written to a checkpoint by all of them at once (`write.rs`), and read from one, on any grid.

mod joint;
mod place;
mod write;
mod writing;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use pipezero_models::ElementType;

use super::Engine;
use super::command::{Answer, Command};
use super::error::EngineError;
use super::kind::EngineKind;
use super::state_check::{check_model, check_optimizer};
use super::weights_file::Wanted;
use crate::checkpoint::{CheckpointError, CheckpointReader, Position};
use crate::executor::ReadWeights;
pub(super) use writing::Writing;

/// A file, and what shows that it is not as it was written.
type Damage = (PathBuf, String);

/// What a checkpoint says of its run beside what the engine knows.
#[derive(Clone, Debug, Default)]
pub struct AboutRun {
    /// The run file as it runs.
    pub run: serde_json::Value,
    /// The checksum of the training text.
    pub text_checksum: Option<String>,
    /// Which start of the run writes it, where starts are counted.
    pub start: Option<u64>,
}

impl Engine {
    /// How far the run is.
    pub fn position(&self) -> Position {
        Position { step: self.step, update: self.update, num_samples: self.num_samples }
    }

    /// Reads the state of a checkpoint, whichever grid wrote it, and goes on after its step.
    ///
    /// # Errors
    /// When it belongs to another model or optimizer, before anything is read; when a file is damaged, or has a value that is not finite: then
    /// another one must be read before the engine is used.
    pub fn resume(&mut self, from: &Arc<CheckpointReader>) -> Result<(), EngineError> {
        let fits =
            check_model(&self.plan, from, Wanted::All).and_then(|()| check_optimizer(&self.plan, from));
        self.agree(fits.map_err(EngineError::from))?;
        drop(self.read(&Command::ReadState(Arc::clone(from)))?);
        let manifest = from.manifest();
        let Position { step, update, num_samples } = manifest.position;
        (self.step, self.update, self.num_samples) = (step, update, num_samples);
        if let (Some(scaler), Some(state)) = (&mut self.loss_scaler, manifest.loss_scale) {
            scaler.resume(state);
        }
        Ok(())
    }
}

impl<K: EngineKind> Engine<K> {
    /// Reads the parameters of a checkpoint, whichever grid wrote it, and nothing else: the run is where it was.
    ///
    /// # Errors
    /// As [`Engine::resume`], but for the optimizer.
    pub fn load_parameters(&mut self, from: &Arc<CheckpointReader>) -> Result<(), EngineError> {
        self.load_wanted_parameters(from, Wanted::All)
    }

    pub(super) fn load_wanted_parameters(
        &mut self,
        from: &Arc<CheckpointReader>,
        wanted: Wanted,
    ) -> Result<(), EngineError> {
        let fits = check_model(&self.plan, from, wanted);
        self.agree(fits.map_err(EngineError::from))?;
        let begun = Instant::now();
        let read = self.read(&Command::ReadParameters { from: Arc::clone(from), wanted })?;
        self.note_loaded(from.folder(), &[ElementType::F32], &read, begun)
    }

    /// Asks all ranks to read. Returns the bytes that each local rank has read.
    fn read(&mut self, command: &Command) -> Result<Vec<ReadWeights>, EngineError> {
        let answers = self.ranks.ask(command)?;
        let (mut all, mut unusable, mut failed) = (Vec::new(), None, None);
        for answer in answers {
            match answer {
                Answer::Read(Ok(read)) => all.push(read),
                Answer::Read(Err(CheckpointError::Unusable(value))) => {
                    unusable = unusable.into_iter().chain([*value]).min();
                }
                Answer::Read(Err(error)) => failed = failed.or(Some(error)),
                _ => {}
            }
        }
        self.agree_on_damage(failed.map_or(Ok(()), Err))?;
        let first = self.first_unusable(unusable)?;
        first.map_or(Ok(all), |value| Err(CheckpointError::Unusable(Box::new(value)).into()))
    }

    /// What this process has read, if all have read theirs; what is damaged for one is so for all.
    fn agree_on_damage<T>(&mut self, read: Result<T, CheckpointError>) -> Result<T, EngineError> {
        let (read, damage, failed) = match read {
            Ok(read) => (Some(read), None, None),
            Err(CheckpointError::Damaged { path, reason }) => (None, Some((path, reason)), None),
            Err(error) => (None, None, Some(error)),
        };
        self.agree(failed.map_or(Ok(()), |error| Err(EngineError::from(error))))?;
        match (self.first_damage(damage.as_ref())?, read) {
            (None, Some(read)) => Ok(read),
            (Some((path, reason)), _) => Err(CheckpointError::Damaged { path, reason }.into()),
            (None, None) => unreachable!("what is damaged here is damaged for all"),
        }
    }

    /// What is damaged, and how, as the first process says that has found something: an earlier checkpoint is then taken by all or by none.
    fn first_damage(&mut self, own: Option<&Damage>) -> Result<Option<Damage>, EngineError> {
        self.judged(&own.cloned(), |all| all.into_iter().flatten().next())
    }
}
