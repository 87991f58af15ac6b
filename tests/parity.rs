//! Every grid, schedule, ZeRO level and residency gives the bits of one pipeline rank at the same data degree and
//! reduction policy (`docs/numerics.md`).

use std::collections::HashMap;
use std::sync::Arc;

use pipezero_config::{ReductionPolicy, ResidencyConfig, Run, UnitLayers, ZeroConfig, ZeroLevel};
use pipezero_models::queue::Deferred;
use tests::features::MODELS;
use tests::{
    Case, Mask, NO_ZERO, SGD, Sample, Schedule, assert_bit_identical, assert_close, pairwise, small_run,
    train, train_on,
};

/// How many values there are of a unit's layers, what is resident (strict, or a unit more than prefetch needs), prefetch, and
/// models: GPT-2 and Llama, each untied and tied, and each with documents.
const SIZES: [usize; 4] = [3, 2, 2, MODELS.len()];

fn zero(level: ZeroLevel, reduce: ReductionPolicy, row: [usize; 4]) -> ZeroConfig {
    let [unit_layers, residency, prefetch_units, _] = row;
    let resident_units =
        [ResidencyConfig::Strict, ResidencyConfig::Units(1 + prefetch_units)][residency].clone();
    let unit_layers = UnitLayers::of_blocks(1 + unit_layers).expect("units have layers");
    ZeroConfig { level, unit_layers, resident_units, prefetch_units, reduce, ..NO_ZERO }
}

#[test]
fn every_grid_schedule_and_level_gives_the_bits_of_one_pipeline_rank() {
    use ReductionPolicy::{Every, Last};
    use ZeroLevel::{Zero0, Zero1, Zero3};
    let mut references = HashMap::new();
    let mut sample = Sample::one_in(4, "grid x schedule x level x units, to the bits of one pipeline rank");
    // Each on another seed of a device that runs kernels later than asked.
    let mut deferred = Sample::one_in(12, "the same, each in another order of a device's queues");
    let mut seed = 0;
    for data in [1, 2, 3] {
        for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero3, Every), (Zero3, Last)] {
            for pipeline in [1, 2, 4] {
                for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
                    for row in pairwise(SIZES) {
                        let (on_host, on_device) = (sample.takes_next(), deferred.takes_next());
                        if !on_host && !on_device {
                            continue;
                        }
                        let zero = zero(level, reduce, row);
                        let grid = Case { pipeline, data, num_micro_batches: 3, ..Case::ONE_RANK };
                        let (family, tied, document_attention) = MODELS[row[3]];
                        let case = Case { schedule, zero, family, tied, document_attention, ..grid };
                        let wanted = references
                            .entry((data, reduce == Every, row[3]))
                            .or_insert_with(|| train(small_run(case.clone().reference()), Mask::Uneven));
                        let name = format!("{case:?}");
                        wanted.assert_clipped(&name);
                        if on_host {
                            assert_bit_identical(
                                &train(small_run(case.clone()), Mask::Uneven),
                                wanted,
                                &name,
                            );
                        }
                        if on_device {
                            let device = Arc::new(Deferred::new(seed));
                            let trained = train_on(device, small_run(case), Mask::Uneven).expect("it trains");
                            assert_bit_identical(&trained, wanted, &format!("seed {seed} of {name}"));
                            seed += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(sample.num_cases(), 3 * 4 * 3 * 2 * pairwise(SIZES).len());
    assert!(seed >= 20, "only {seed} orders");
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let zero = zero(ZeroLevel::Zero3, ReductionPolicy::Every, [1, 0, 1, 0]);
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK };
    let wanted = train(small_run(case.clone()), Mask::Uneven);
    for threads in [2, 3] {
        let trained = train(small_run(Case { threads, ..case.clone() }), Mask::Uneven);
        assert_bit_identical(&trained, &wanted, &format!("{threads} threads"));
    }
}

/// Masks that differ over micro-batches and data ranks weigh every target of the step alike: the same as one big
/// micro-batch. Sums are taken in another order, so f32 rounds differently: a few units in the last place over five
/// steps. With SGD, since AdamW divides a gradient by its own size and so blows up the rounding of gradients that are
/// zero but for rounding, like those of the key's bias.
#[test]
fn uneven_masks_over_micro_batches_and_data_ranks_equal_one_big_batch() {
    let zero = zero(ZeroLevel::Zero3, ReductionPolicy::Every, [1, 0, 1, 0]);
    let case = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK };
    let many = train(Run { optimizer: SGD, ..small_run(case) }, Mask::Uneven);
    let mut run = Run { optimizer: SGD, ..small_run(Case { num_micro_batches: 1, ..Case::ONE_RANK }) };
    (run.batch.micro_batch_size, run.batch.train_batch_size) = (12, 12);
    let one = train(run, Mask::Uneven);
    assert_close(&many, &one, 1e-5, "3 micro-batches on 2 x 2 ranks");
}
