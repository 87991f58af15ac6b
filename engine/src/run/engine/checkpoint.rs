//! The state of all ranks: written to a checkpoint by all of them at once, and read from one, on any grid.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command::{Answer, Command};
use super::error::EngineError;
use super::weights_file::parameters;
use super::{Engine, LossScaler};
use crate::run::checkpoint::{
    CheckpointError, CheckpointReader, Checkpoints, FileRecord, Manifest, NewCheckpoint, ParameterRecord,
    Piece, Position,
};

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

    /// Writes a checkpoint of the state after the last step, under its name once it is complete. After an error of a file the ranks go on,
    /// and earlier checkpoints are as they were.
    ///
    /// # Errors
    /// When a file cannot be written, [`EngineError::Elsewhere`] where that is so in another process alone, or a rank stops.
    pub fn write_checkpoint(&mut self, to: &Checkpoints, about: &AboutRun) -> Result<(), EngineError> {
        let started = if self.has_rank_0() { to.start(self.step).map(Some) } else { Ok(None) };
        let new = self.agree(started.map_err(EngineError::from))?;
        let written = self.write_files(&to.partial(self.step), new.clone(), about);
        if let (Err(_), Some(new)) = (&written, new) {
            // A disk that is full should not stay so for what is of no use.
            new.abandon();
        }
        written
    }

    fn write_files(
        &mut self,
        folder: &Path,
        new: Option<NewCheckpoint>,
        about: &AboutRun,
    ) -> Result<(), EngineError> {
        let answers = self.ranks.ask(&Command::WriteState(folder.into()))?;
        let files = answers.into_iter().filter_map(|answer| match answer {
            Answer::Written(file) => Some(file),
            _ => None,
        });
        let files = files.collect::<Result<Vec<FileRecord>, CheckpointError>>();
        let files = self.agree(files.map_err(EngineError::from))?;
        let message = serde_json::to_vec(&files).expect("a record has string keys and finite depth");
        let messages = self.ranks.together(|world| world.gather(message))?;
        let finished = new.map_or(Ok(()), |new| {
            let read = |message: &Vec<u8>| serde_json::from_slice::<Vec<FileRecord>>(message);
            let files = messages.iter().map(read).collect::<Result<Vec<_>, _>>();
            let files = files.expect("every process runs this program").concat();
            new.finish(&self.manifest(files, about))
        });
        self.agree(finished.map_err(EngineError::from))
    }

    fn manifest(&self, files: Vec<FileRecord>, about: &AboutRun) -> Manifest {
        let grid = self.plan.grid();
        let parameter =
            |name: &str, shape: &[usize]| ParameterRecord { name: name.to_owned(), shape: shape.to_vec() };
        Manifest {
            loss_scale: self.loss_scaler.as_ref().map(LossScaler::state),
            text_checksum: about.text_checksum.clone(),
            grid: [grid.pipeline_degree, grid.data_degree],
            kinds: self.kinds(),
            parameters: parameters(&self.plan).map(|spec| parameter(&spec.name, &spec.shape)).collect(),
            files,
            run: about.run.clone(),
            ..Manifest::new(self.position())
        }
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
