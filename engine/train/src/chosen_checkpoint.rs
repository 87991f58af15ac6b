//! From which checkpoint a run goes on: the newest that every process can read.

use pipezero_comm::world::World;
use pipezero_run::checkpoint::{CheckpointError, CheckpointReader, Checkpoints};
use pipezero_run::engine::EngineError;

use super::error::TrainingError;

/// The newest checkpoint of the run before a step of which every process can read manifest and headers: the process of rank 0 chooses, since it alone may
/// know which of them are of the run, and a checkpoint that another process cannot read is taken by none. Why newer ones are not is added to `refused`.
///
/// # Errors
/// When a folder cannot be read, or another process stops.
pub(super) fn newest_of_all(
    world: &dyn World,
    checkpoints: &Checkpoints,
    mut before: u64,
    refused: &mut Vec<CheckpointError>,
) -> Result<Option<CheckpointReader>, TrainingError> {
    if world.local_ranks().len() == world.size() {
        return Ok(checkpoints.newest_before(before, refused).map_err(EngineError::from)?);
    }
    let is_first = world.local_ranks().contains(&0);
    loop {
        let chosen = if is_first {
            checkpoints.newest_before(before, refused).map_err(EngineError::from)?
        } else {
            None
        };
        let step = chosen.as_ref().map(|chosen| chosen.manifest().position.step);
        let Some(step) = told(world, step)? else { return Ok(None) };
        let opened = match chosen {
            Some(chosen) => Ok(chosen),
            None => CheckpointReader::open(&checkpoints.at(step)),
        };
        let opened = match opened {
            Err(error) if !error.is_damage() => return Err(EngineError::from(error).into()),
            opened => opened,
        };
        let own = opened.as_ref().err().map_or_else(String::new, ToString::to_string);
        let found = world.gather(own.into_bytes()).map_err(EngineError::of_others)?;
        let found = found.into_iter().find(|error| !error.is_empty()).unwrap_or_default();
        let found = world.broadcast(found).map_err(EngineError::of_others)?;
        match opened {
            Ok(chosen) if found.is_empty() => return Ok(Some(chosen)),
            Ok(_) => refused.push(CheckpointError::Refused(String::from_utf8_lossy(&found).into_owned())),
            Err(error) => refused.push(error),
        }
        before = step;
    }
}

/// The step that the process of rank 0 has chosen, in all processes.
fn told(world: &dyn World, step: Option<u64>) -> Result<Option<u64>, TrainingError> {
    let own = step.map_or_else(Vec::new, |step| step.to_le_bytes().to_vec());
    let said = world.broadcast(own).map_err(EngineError::of_others)?;
    Ok(said.try_into().ok().map(u64::from_le_bytes))
}
