//! What the processes of a job find before their ranks start is known to all: what is wrong is said by one, and all end.

use super::failure::Failure;
use crate::run::engine::EngineError;
use crate::run::world::World;
use crate::train::TrainingError;

/// What this process has found, once all have come as far. Where some failed, the one with the lowest rank says why.
pub(super) fn agreed<T>(world: &dyn World, rank: usize, own: Result<T, Failure>) -> Result<T, Failure> {
    let mut failed = vec![0; world.size()];
    if let Some(failed) = failed.get_mut(rank) {
        *failed = u64::from(own.is_err());
    }
    let asked = world.add_words(&mut failed);
    match (own, failed.iter().position(|&failed| failed > 0)) {
        (Ok(found), None) => {
            asked.map(|()| found).map_err(|error| TrainingError::from(EngineError::from(error)).into())
        }
        (Err(error), Some(first)) if first == rank => Err(error),
        _ => Err(Failure::SaidElsewhere),
    }
}
