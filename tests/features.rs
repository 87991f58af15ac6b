//! What no feature may change: schedules, residencies, prefetching, cuts, recomputation and dropout give the bits of one
//! pipeline rank at the same data degree, reduction policy and precision (`docs/numerics.md`).
//!
//! The full product is far too large, so runs are drawn from it until every pair of values of two dimensions has been
//! run; which pairs are left is counted. The gate runs a sample of these runs.

use std::collections::HashMap;

use pipezero::config::{Precision, ReductionPolicy, ZeroConfig, ZeroLevel};
use tests::features::{self, CHECKPOINTING, DATA, NUM_LAYERS, PRECISIONS, TIED, UNITS, resident_units};
use tests::{
    Case, FP16, Mask, NO_ZERO, Sample, Schedule, Trained, assert_bit_identical, pairwise, small_run, train,
};

const GRIDS: [(usize, Schedule); 22] = {
    use Schedule::{Bfs, Eager, GPipe, Grouped, Interleaved, OneFOneB, ZbH1, ZbH2, ZbV};
    [
        (1, OneFOneB),
        (2, GPipe),
        (2, OneFOneB),
        (2, Eager),
        (2, Interleaved { virtual_stages: 2 }),
        (2, Interleaved { virtual_stages: 3 }),
        (2, Grouped { virtual_stages: 2, group_size: 3 }),
        (2, Bfs { virtual_stages: 2 }),
        (2, Bfs { virtual_stages: 3 }),
        (4, GPipe),
        (4, OneFOneB),
        (4, Eager),
        (4, Interleaved { virtual_stages: 2 }),
        (4, Interleaved { virtual_stages: 3 }),
        (4, Grouped { virtual_stages: 2, group_size: 5 }),
        (4, Bfs { virtual_stages: 2 }),
        (4, Bfs { virtual_stages: 3 }),
        (2, ZbH1),
        (2, ZbV),
        (4, ZbH1),
        (4, ZbH2),
        (4, ZbV),
    ]
};

/// Level, policy, residency beyond what prefetching needs (`None`: strict; `usize::MAX`: all), prefetch.
const ZERO: [(ZeroLevel, ReductionPolicy, Option<usize>, usize); 15] = {
    use ReductionPolicy::{Every, Last};
    use ZeroLevel::{Zero0, Zero1, Zero3};
    [
        (Zero0, Last, None, 0),
        (Zero1, Last, None, 0),
        (Zero3, Every, None, 0),
        (Zero3, Every, None, 1),
        (Zero3, Every, None, 2),
        (Zero3, Every, None, 3),
        (Zero3, Every, Some(0), 0),
        (Zero3, Every, Some(1), 1),
        (Zero3, Every, Some(0), 2),
        (Zero3, Every, Some(2), 3),
        (Zero3, Every, Some(usize::MAX), 0),
        (Zero3, Every, Some(usize::MAX), 1),
        (Zero3, Last, None, 1),
        (Zero3, Last, Some(1), 0),
        (Zero3, Last, Some(usize::MAX), 2),
    ]
};

const DROPOUT: [f64; 2] = [0.0, 0.1];

/// Number of values of each dimension, in the order of [`case_of`].
const SIZES: [usize; 8] = [
    GRIDS.len(),
    ZERO.len(),
    UNITS.len(),
    PRECISIONS.len(),
    CHECKPOINTING.len(),
    DROPOUT.len(),
    TIED.len(),
    DATA.len(),
];

/// A value of each dimension.
type Choice = [usize; SIZES.len()];

fn case_of(choice: Choice) -> Case {
    let [grid, zero, units, precision, checkpointing, dropout, tied, data] = choice;
    let (pipeline, schedule) = GRIDS[grid];
    let (level, reduce, beyond, prefetch_units) = ZERO[zero];
    Case {
        pipeline,
        data: DATA[data],
        num_micro_batches: 5,
        schedule,
        zero: ZeroConfig {
            level,
            reduce,
            resident_units: resident_units(beyond, prefetch_units),
            prefetch_units,
            unit_layers: UNITS[units],
            ..NO_ZERO
        },
        tied: TIED[tied],
        num_layers: NUM_LAYERS,
        precision: PRECISIONS[precision],
        checkpointing: features::checkpointing(schedule, checkpointing),
        dropout: DROPOUT[dropout],
        ..Case::ONE_RANK
    }
}

#[test]
fn every_pair_of_features_gives_the_bits_of_one_pipeline_rank() {
    let choices = pairwise(SIZES);
    // Schedules times ZeRO rows are all there.
    assert!(choices.len() >= GRIDS.len() * ZERO.len(), "{} runs", choices.len());
    let mut references: HashMap<String, Trained> = HashMap::new();
    let mut sample = Sample::one_in(3, "pair of features, to the bits of one pipeline rank");
    for choice in choices.into_iter().filter(|_| sample.takes_next()) {
        let case = case_of(choice);
        let reference = case.reference();
        let key = format!("{reference:?}");
        let wanted = references.entry(key).or_insert_with(|| run(reference));
        wanted.assert_clipped(&format!("{reference:?}"));
        assert!(!wanted.last.skipped, "nothing overflows in {reference:?}");
        assert_bit_identical(&run(case), wanted, &format!("{case:?}"));
    }
}

fn run(case: Case) -> Trained {
    let mut run = small_run(case);
    run.steps = 3;
    train(run, Mask::Uneven)
}

/// Dropout and precision do change numbers, so the comparison above is not of things that have no effect.
#[test]
fn dropout_and_precision_change_the_loss() {
    let case = Case { num_layers: 2, ..Case::ONE_RANK };
    let losses = |case| run(case).losses;
    let plain = losses(case);
    for other in [
        Case { dropout: 0.1, ..case },
        Case { precision: Precision::Bf16, ..case },
        Case { precision: FP16, ..case },
    ] {
        assert_ne!(losses(other), plain, "{other:?}");
    }
}
