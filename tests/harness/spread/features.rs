//! What of a run's features shapes memory and traffic, pair by pair.

use pipezero::config::{UnitLayers, ZeroConfig};

use super::{Family, Spread, WORK, Work};
use crate::features::{self, CHECKPOINTING, DATA, GRIDS, PRECISIONS, TIED, UNITS, VOCABULARIES, ZERO};
use crate::{Case, pairwise};

/// Thresholds of a parameter and of the model. Of the model's weights attention's have at most 432 elements, the MLP's 576, tables
/// 25,200: none persists, then halves that are attention, some of all but tables, all.
const PERSISTENCE: [(u64, u64); 4] = [(0, u64::MAX), (500, u64::MAX), (600, 6000), (30_000, u64::MAX)];

/// Number of values of each dimension, in the order of [`run_of`].
const SIZES: [usize; 10] = [
    GRIDS.len(),
    ZERO.len(),
    UNITS.len(),
    PRECISIONS.len(),
    CHECKPOINTING.len(),
    PERSISTENCE.len(),
    TIED.len(),
    DATA.len(),
    VOCABULARIES.len(),
    WORK.len(),
];

/// Runs in which every pair of values occurs.
pub(super) fn runs() -> Vec<Spread> {
    pairwise(SIZES).into_iter().map(run_of).collect()
}

fn run_of(choice: [usize; SIZES.len()]) -> Spread {
    let [grid, zero, units, precision, checkpointing, persistence, tied, data, vocabulary, work] = choice;
    let case = features::case_of([grid, zero, units, precision, checkpointing, tied, data, vocabulary]);
    let (param_persistence_threshold, model_persistence_threshold) = PERSISTENCE[persistence];
    let family = if UNITS[units] == UnitLayers::Half { Family::Gpt2 } else { WORK[work].family };
    let work = Work { schedule: case.schedule, family, ..WORK[work] };
    let zero = ZeroConfig { param_persistence_threshold, model_persistence_threshold, ..case.zero };
    let case = Case { num_micro_batches: work.num_micro_batches, zero, ..case };
    Spread { name: format!("{case:?}, {work:?}"), run: super::run(case, work) }
}
