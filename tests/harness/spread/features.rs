//! What of a run's features shapes memory and traffic, pair by pair.

use pipezero::config::{ReductionPolicy, UnitLayersConfig, ZeroConfig, ZeroLevel};

use super::{Family, Spread, WORK, Work};
use crate::features::{self, CHECKPOINTING, DATA, NUM_LAYERS, PRECISIONS, TIED, UNITS, resident_units};
use crate::{Case, Schedule, pairwise};

const GRIDS: [(usize, Schedule); 15] = {
    use Schedule::{Bfs, Eager, GPipe, Grouped, Interleaved, OneFOneB, ZbH1, ZbH2, ZbV};
    [
        (1, OneFOneB),
        (2, GPipe),
        (2, OneFOneB),
        (2, Eager),
        (2, Interleaved { virtual_stages: 3 }),
        (2, Bfs { virtual_stages: 2 }),
        (4, OneFOneB),
        (4, Eager),
        (4, Interleaved { virtual_stages: 2 }),
        (4, Interleaved { virtual_stages: 3 }),
        (4, Grouped { virtual_stages: 2, group_size: 5 }),
        (4, Bfs { virtual_stages: 3 }),
        (2, ZbV),
        (4, ZbH1),
        (4, ZbH2),
    ]
};

/// Level, policy, residency beyond what prefetching needs (`None`: strict; `usize::MAX`: all), prefetch.
const ZERO: [(ZeroLevel, ReductionPolicy, Option<usize>, usize); 12] = {
    use ReductionPolicy::{Every, Last};
    use ZeroLevel::{Zero0, Zero1, Zero3};
    [
        (Zero0, Last, None, 0),
        (Zero1, Last, None, 0),
        (Zero3, Every, None, 0),
        (Zero3, Every, None, 1),
        (Zero3, Every, None, 2),
        (Zero3, Every, None, 3),
        (Zero3, Every, Some(0), 1),
        (Zero3, Every, Some(1), 2),
        (Zero3, Every, Some(2), 3),
        (Zero3, Last, Some(1), 0),
        (Zero3, Every, Some(usize::MAX), 0),
        (Zero3, Last, Some(usize::MAX), 2),
    ]
};

/// Thresholds of a parameter and of the model. Of the small model's weights tables have 204 elements, attention's at
/// most 432, the MLP's 576: none persists, then tables and halves that are attention, some of all, all.
const PERSISTENCE: [(u64, u64); 4] = [(0, u64::MAX), (500, u64::MAX), (600, 6000), (600, u64::MAX)];

/// Number of values of each dimension, in the order of [`run_of`].
const SIZES: [usize; 9] = [
    GRIDS.len(),
    ZERO.len(),
    UNITS.len(),
    PRECISIONS.len(),
    CHECKPOINTING.len(),
    PERSISTENCE.len(),
    TIED.len(),
    DATA.len(),
    WORK.len(),
];

/// Runs in which every pair of values occurs.
pub(super) fn runs() -> Vec<Spread> {
    pairwise(SIZES).into_iter().map(run_of).collect()
}

fn run_of(choice: [usize; SIZES.len()]) -> Spread {
    let [grid, zero, units, precision, checkpointing, persistence, tied, data, work] = choice;
    let (pipeline, schedule) = GRIDS[grid];
    let (level, reduce, beyond, prefetch_units) = ZERO[zero];
    let (param_persistence_threshold, model_persistence_threshold) = PERSISTENCE[persistence];
    // A block of the small family is one layer, which has no halves.
    let family = if UNITS[units] == UnitLayersConfig::Half { Family::Gpt2 } else { WORK[work].family };
    let work = Work { schedule, family, ..WORK[work] };
    let case = Case {
        pipeline,
        data: DATA[data],
        num_micro_batches: work.num_micro_batches,
        schedule,
        zero: ZeroConfig {
            level,
            unit_layers: UNITS[units],
            resident_units: resident_units(beyond, prefetch_units),
            prefetch_units,
            reduce,
            param_persistence_threshold,
            model_persistence_threshold,
        },
        tied: TIED[tied],
        num_layers: NUM_LAYERS,
        precision: PRECISIONS[precision],
        checkpointing: features::checkpointing(schedule, checkpointing),
        ..Case::ONE_RANK
    };
    Spread { name: format!("{case:?}, {work:?}"), run: super::run(case, work) }
}
