//! What a new engine's ranks begin with.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::EngineError;
use super::state_check::{check_model, check_optimizer};
use crate::plan::Plan;
use crate::run::checkpoint::CheckpointReader;
use crate::run::world::World;

/// What a new engine's ranks begin with. Each rank draws or reads the elements that it holds, unit by unit, and no others.
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
    /// Refuses a checkpoint of another model or optimizer in every process, before anything is allocated.
    pub(super) fn check(&self, plan: &Plan, world: &dyn World) -> Result<(), EngineError> {
        let checked = match self {
            Self::Drawn | Self::Weights(_) => return Ok(()),
            Self::Parameters(from) => check_model(plan, from),
            Self::Checkpoint(from) => check_model(plan, from).and_then(|()| check_optimizer(plan, from)),
        };
        let mut num_refusals = [u64::from(checked.is_err())];
        world.add_words(&mut num_refusals)?;
        checked?;
        if num_refusals == [0] { Ok(()) } else { Err(EngineError::Elsewhere) }
    }
}
