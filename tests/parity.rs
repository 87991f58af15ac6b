//! Every grid, schedule, ZeRO level and residency gives the bits of one pipeline rank at the same data degree and
//! reduction policy (`docs/numerics.md`).

use std::collections::HashMap;

use pipezero::config::{
    NoDecay, OptimizerConfig, ReductionPolicy, ResidencyConfig, Run, UnitLayersConfig, ZeroConfig, ZeroLevel,
};
use tests::{Case, Mask, NO_ZERO, Sample, Schedule, assert_bit_identical, assert_close, small_run, train};

/// How a unit is cut, kept and fetched, and whether the head is tied. Every pair of values of two columns occurs in a row;
/// a test below counts them.
const PAIRWISE: [(usize, Residency, usize, bool); 8] = [
    (1, Residency::Strict, 0, false),
    (1, Residency::OneMoreThanPrefetch, 1, true),
    (2, Residency::Strict, 1, false),
    (2, Residency::OneMoreThanPrefetch, 0, true),
    (3, Residency::Strict, 0, true),
    (3, Residency::OneMoreThanPrefetch, 1, false),
    (1, Residency::Strict, 1, true),
    (2, Residency::OneMoreThanPrefetch, 0, false),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Residency {
    Strict,
    OneMoreThanPrefetch,
}

fn zero(level: ZeroLevel, reduce: ReductionPolicy, row: usize) -> ZeroConfig {
    let (unit_layers, residency, prefetch_units, _) = PAIRWISE[row];
    let resident_units = match residency {
        Residency::Strict => ResidencyConfig::Strict,
        Residency::OneMoreThanPrefetch => ResidencyConfig::Units(1 + prefetch_units),
    };
    let unit_layers = UnitLayersConfig::Layers(unit_layers);
    ZeroConfig { level, unit_layers, resident_units, prefetch_units, reduce, ..NO_ZERO }
}

#[test]
fn every_grid_schedule_and_level_gives_the_bits_of_one_pipeline_rank() {
    use ReductionPolicy::{Every, Last};
    use ZeroLevel::{Zero0, Zero1, Zero3};
    let mut references = HashMap::new();
    let mut sample = Sample::one_in(4, "grid x schedule x level x units, to the bits of one pipeline rank");
    for data in [1, 2, 3] {
        for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero3, Every), (Zero3, Last)] {
            for pipeline in [1, 2, 4] {
                for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
                    for (row, &(.., tied)) in PAIRWISE.iter().enumerate() {
                        if !sample.takes_next() {
                            continue;
                        }
                        let zero = zero(level, reduce, row);
                        let grid = Case { pipeline, data, num_micro_batches: 3, ..Case::ONE_RANK };
                        let case = Case { schedule, zero, tied, ..grid };
                        let trained = train(small_run(case), Mask::Uneven);
                        let wanted = references
                            .entry((data, reduce == Every, tied))
                            .or_insert_with(|| train(small_run(case.reference()), Mask::Uneven));
                        let name = format!("{case:?}");
                        wanted.assert_clipped(&name);
                        assert_bit_identical(&trained, wanted, &name);
                    }
                }
            }
        }
    }
    assert_eq!(sample.num_cases(), 3 * 4 * 3 * 2 * PAIRWISE.len());
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let zero = zero(ZeroLevel::Zero3, ReductionPolicy::Every, 2);
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK };
    let wanted = train(small_run(case), Mask::Uneven);
    for threads in [2, 3] {
        let trained = train(small_run(Case { threads, ..case }), Mask::Uneven);
        assert_bit_identical(&trained, &wanted, &format!("{threads} threads"));
    }
}

/// Masks that differ over micro-batches and data ranks weigh every target of the step alike: the same as one big
/// micro-batch. Sums are taken in another order, so f32 rounds differently: a few units in the last place over five
/// steps. With SGD, since AdamW divides a gradient by its own size and so blows up the rounding of gradients that are
/// zero but for rounding, like those of the key's bias.
#[test]
fn uneven_masks_over_micro_batches_and_data_ranks_equal_one_big_batch() {
    let zero = zero(ZeroLevel::Zero3, ReductionPolicy::Every, 2);
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK };
    let sgd = OptimizerConfig::Sgd {
        lr: 0.5,
        momentum: 0.9,
        weight_decay: 0.01,
        no_decay: NoDecay::OneDimensional,
    };
    let many = train(Run { optimizer: sgd.clone(), ..small_run(case) }, Mask::Uneven);
    let mut run = Run { optimizer: sgd, ..small_run(Case { num_micro_batches: 1, ..Case::ONE_RANK }) };
    (run.batch.micro_batch_size, run.batch.train_batch_size) = (12, 12);
    let one = train(run, Mask::Uneven);
    assert_close(&many, &one, 1e-5, "3 micro-batches on 2 x 2 ranks");
}

#[test]
fn every_pair_of_values_of_two_columns_occurs_in_a_row() {
    let numbers = |&(unit_layers, residency, prefetch_units, tied): &(usize, Residency, usize, bool)| {
        [unit_layers - 1, usize::from(residency == Residency::Strict), prefetch_units, usize::from(tied)]
    };
    let num_values = [3, 2, 2, 2];
    for (first, second) in (0..4).flat_map(|first| (first + 1..4).map(move |second| (first, second))) {
        for (value, other) in
            (0..num_values[first]).flat_map(|value| (0..num_values[second]).map(move |other| (value, other)))
        {
            let occurs = PAIRWISE.iter().map(numbers).any(|row| row[first] == value && row[second] == other);
            assert!(occurs, "columns {first} and {second}: {value} with {other}");
        }
    }
}
