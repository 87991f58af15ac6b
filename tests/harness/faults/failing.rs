//! A rank that fails as soon as it is at a phase, while all train.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use pipezero_run::engine::{Engine, EngineError};
use pipezero_run::world::Positions;

use super::{Fault, WEIGHTS, note_failure};
use crate::Phase;

/// The step that is the first in which the rank may fail: others have then begun.
const FIRST_STEP: u64 = 2;
/// A rank that has not failed by then does not come to what it is to fail at.
const LAST_STEP: u64 = 400;

/// Trains, and saves if the rank is to fail at that, until the rank has failed by calling `fails`: what the engine of this `rank` says.
///
/// # Panics
/// If nothing fails.
pub fn error_of(
    engine: &mut Engine,
    positions: &Arc<Positions>,
    rank: usize,
    fault: Fault,
    folder: &Path,
    fails: impl Fn() + Send + 'static,
) -> EngineError {
    let at = folder.to_owned();
    let mut fails = (rank == fault.rank).then_some(move || {
        note_failure(&at);
        fails();
    });
    loop {
        let report = match engine.train_batch() {
            Ok(report) => report,
            Err(error) => return error,
        };
        assert!(report.step < LAST_STEP, "rank {} does not come to {fault}", fault.rank);
        if fault.phase != Phase::Saving
            && report.step + 1 == FIRST_STEP
            && let Some(fails) = fails.take()
        {
            let positions = Arc::clone(positions);
            thread::spawn(move || {
                while !fault.phase.has(positions.get(fault.rank)) {
                    std::hint::spin_loop();
                }
                fails();
            });
        }
        if fault.phase == Phase::Saving && report.step == FIRST_STEP {
            fails.iter().for_each(|fails| fails());
            return engine.save(&folder.join(WEIGHTS)).expect_err("one rank is missing");
        }
    }
}
