//! From which checkpoint a run goes on: the newest that every process can read.

use pipezero_comm::world::{World, judged_by_first};
use pipezero_files::host;
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
    if world.has_all_ranks() {
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
        let step = judged_by_first(world, &step, |all| all.into_iter().next().flatten());
        let Some(step) = step.map_err(EngineError::of_others)? else { return Ok(None) };
        let opened = match chosen {
            Some(chosen) => Ok(chosen),
            None => CheckpointReader::open(&checkpoints.at(step)),
        };
        let opened = match opened {
            Err(error) if !error.is_damage() => return Err(EngineError::from(error).into()),
            opened => opened,
        };
        let own = opened.as_ref().err().map(|error| format!("on host {}: {error}", host::name()));
        let found = judged_by_first(world, &own, |all| all.into_iter().flatten().next());
        let found = found.map_err(EngineError::of_others)?;
        match (opened, found) {
            (Ok(chosen), None) => return Ok(Some(chosen)),
            (Ok(_), Some(found)) => refused.push(CheckpointError::Refused { step, words: found }),
            (Err(error), _) => refused.push(error),
        }
        before = step;
    }
}
