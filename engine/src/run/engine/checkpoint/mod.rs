//! The state of all ranks: written to a checkpoint by all of them at once (`write.rs`), and read from one, on any grid.

mod place;
mod write;
mod writing;

use std::path::PathBuf;
use std::sync::Arc;

use super::Engine;
use super::command::{Answer, Command};
use super::error::EngineError;
use super::weights_file::parameters;
use crate::run::checkpoint::{CheckpointError, CheckpointReader, Piece, Position};
pub(super) use writing::Writing;

/// What a checkpoint says of its run beside what the engine knows.
#[derive(Clone, Debug, Default)]
pub struct AboutRun {
    /// The run file as it runs.
    pub run: serde_json::Value,
    /// The checksum of the training text.
    pub text_checksum: Option<String>,
}

impl Engine {
    /// How far the run is.
    pub fn position(&self) -> Position {
        Position { step: self.step, update: self.update, num_samples: self.num_samples }
    }

    /// What is kept of each parameter.
    fn kinds(&self) -> Vec<String> {
        let states = self.plan.run().optimizer.state_names();
        [Piece::PARAMETER].iter().chain(states).map(|&kind| kind.to_owned()).collect()
    }

    /// Reads the state of a checkpoint, whichever grid wrote it, and goes on after its step.
    ///
    /// # Errors
    /// When it belongs to another model or optimizer, before anything is read; when a file is damaged: then another one must be read
    /// before the engine is used.
    pub fn resume(&mut self, from: &Arc<CheckpointReader>) -> Result<(), EngineError> {
        let fits = self.check_model(from).and_then(|()| self.check_optimizer(from));
        self.agree(fits.map_err(EngineError::from))?;
        self.read(&Command::ReadState(Arc::clone(from)))?;
        let manifest = from.manifest();
        let Position { step, update, num_samples } = manifest.position;
        (self.step, self.update, self.num_samples) = (step, update, num_samples);
        if let (Some(scaler), Some(state)) = (&mut self.loss_scaler, manifest.loss_scale) {
            scaler.resume(state);
        }
        Ok(())
    }

    /// Reads the parameters of a checkpoint, whichever grid wrote it, and nothing else: the run is where it was.
    ///
    /// # Errors
    /// As [`Engine::resume`], but for the optimizer.
    pub fn load_parameters(&mut self, from: &Arc<CheckpointReader>) -> Result<(), EngineError> {
        self.agree(self.check_model(from).map_err(EngineError::from))?;
        self.read(&Command::ReadParameters(Arc::clone(from)))
    }

    fn read(&mut self, command: &Command) -> Result<(), EngineError> {
        let answers = self.ranks.ask(command)?;
        let failed = answers.into_iter().find_map(|answer| match answer {
            Answer::Read(read) => read.err(),
            _ => None,
        });
        self.agree(failed.map_or(Ok(()), |error| Err(EngineError::from(error))))
    }

    /// Checks that a checkpoint holds the parameters of the plan.
    fn check_model(&self, from: &CheckpointReader) -> Result<(), CheckpointError> {
        let path: PathBuf = from.folder().to_owned();
        let manifest = from.manifest();
        let other = |reason: String| CheckpointError::OtherModel { path: path.clone(), reason };
        let mut num_parameters = 0;
        for spec in parameters(&self.plan) {
            num_parameters += 1;
            let found = manifest.parameters.iter().find(|parameter| parameter.name == spec.name);
            let found = found.ok_or_else(|| other(format!("it has no parameter `{}`", spec.name)))?;
            let needed = &spec.shape;
            if found.shape != *needed {
                return Err(other(format!(
                    "its `{}` is {:?}, the model's {needed:?}",
                    spec.name, found.shape
                )));
            }
        }
        if manifest.parameters.len() != num_parameters {
            let found = manifest.parameters.len();
            return Err(other(format!("it has {found} parameters, the model {num_parameters}")));
        }
        Ok(())
    }

    /// Checks that a checkpoint holds the optimizer state of the plan.
    fn check_optimizer(&self, from: &CheckpointReader) -> Result<(), CheckpointError> {
        let (path, manifest) = (from.folder().to_owned(), from.manifest());
        let needed = self.kinds();
        if manifest.kinds != needed {
            let (found, needed) = (manifest.kinds.join(", "), needed.join(", "));
            return Err(CheckpointError::OtherOptimizer { path, found, needed });
        }
        Ok(())
    }
}
