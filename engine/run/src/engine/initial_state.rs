//! What a new engine's ranks begin with.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_comm::world::World;
use pipezero_config::hugging_face::{NOT_OF_THE_MODEL, Unused};
use pipezero_plan::Plan;

use super::error::EngineError;
use super::state_check::{check_model, check_optimizer};
use super::weights_file::{Wanted, WeightsFile};
use crate::checkpoint::{CheckpointReader, Position};

/// What a new engine's ranks begin with. Each rank draws or reads the elements that it holds, unit by unit, and no others. Where a run that trains begins with
/// weights, those parameters are drawn that its `init.new` names ([`Plan::is_new`]), and all others must be there.
#[derive(Clone, Debug)]
pub enum InitialState {
    /// Weights that depend on the run's seed alone.
    Drawn,
    /// Those of a file that [`Engine::save`](super::Engine::save) wrote, on any grid.
    Weights(PathBuf),
    /// Those of a checkpoint, without its optimizer state: the run is at its beginning.
    Parameters(Arc<CheckpointReader>),
    /// A checkpoint: the run goes on after its step.
    Checkpoint(Arc<CheckpointReader>),
}

impl InitialState {
    /// Checks what headers say of weights that are to be read, before ranks start: that they are there, and of the plan's model. Returns what
    /// their files hold and the model does not use.
    ///
    /// # Errors
    /// As those of reading them.
    pub fn check_headers(&self, plan: &Plan) -> Result<Vec<Unused>, EngineError> {
        match self {
            Self::Drawn => Ok(Vec::new()),
            Self::Weights(path) => Ok(WeightsFile::open(plan, path, Wanted::AllButNew)?.unused().to_vec()),
            Self::Parameters(from) => {
                check_model(plan, from, Wanted::AllButNew)?;
                let names: HashSet<&str> = Wanted::AllButNew.of(plan).map(|spec| &*spec.name).collect();
                let others = from.manifest().parameters.iter().map(|of| &*of.name);
                let others = others.filter(|name| !names.contains(name));
                Ok(others.map(|name| Unused::new(format!("`{name}`"), NOT_OF_THE_MODEL)).collect())
            }
            Self::Checkpoint(from) => {
                check_model(plan, from, Wanted::All)?;
                Ok(Vec::new())
            }
        }
    }

    /// The weights files that ranks read in parts; none of a checkpoint, whose manifest has checksums of all of them.
    ///
    /// # Errors
    /// When headers are damaged or cannot be read.
    pub fn files(&self, plan: &Plan) -> Result<Vec<PathBuf>, EngineError> {
        let Self::Weights(path) = self else { return Ok(Vec::new()) };
        Ok(WeightsFile::open(plan, path, Wanted::AllButNew)?
            .paths()
            .into_iter()
            .map(Path::to_owned)
            .collect())
    }

    /// Refuses a checkpoint of another model or optimizer, and processes that begin with different states, in every process and before
    /// anything is allocated.
    pub(super) fn check(&self, plan: &Plan, world: &dyn World) -> Result<(), EngineError> {
        let checked = match self {
            Self::Drawn | Self::Weights(_) => Ok(()),
            Self::Parameters(from) => check_model(plan, from, Wanted::AllButNew),
            Self::Checkpoint(from) => {
                check_model(plan, from, Wanted::All).and_then(|()| check_optimizer(plan, from))
            }
        };
        let own = self.name();
        let first = world.broadcast(own.clone().into_bytes())?;
        let is_other = first != own.as_bytes();
        let mut num_refusals = [u64::from(checked.is_err() || is_other)];
        world.add_words(&mut num_refusals)?;
        checked?;
        if is_other {
            let first = String::from_utf8_lossy(&first).into_owned();
            return Err(EngineError::OtherState { own, first });
        }
        if num_refusals == [0] { Ok(()) } else { Err(EngineError::Elsewhere) }
    }

    /// What it is, in words that are the same in each process that begins with it.
    fn name(&self) -> String {
        match self {
            Self::Drawn => "drawn weights".to_owned(),
            Self::Weights(_) => "a weights file".to_owned(),
            Self::Parameters(from) => format!("the weights of {}", of(from)),
            Self::Checkpoint(from) => of(from),
        }
    }
}

fn of(from: &CheckpointReader) -> String {
    let Position { step, update, num_samples } = from.manifest().position;
    format!("a checkpoint of step {step} ({update} updates, {num_samples} sequences)")
}
