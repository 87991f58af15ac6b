//! What no feature may change on GPUs: draws from all of them, to the bits of one pipeline rank on one GPU.

use pipezero_config::{
    HeadLogits, Precision, ReductionPolicy, UnitLayers, VocabularyConfig, ZeroConfig, ZeroLevel,
};
use tests::features::{self, CHECKPOINTING, DATA, GRIDS, MODELS, PRECISIONS, UNITS, VOCABULARIES, ZERO};
use tests::{
    Case, Draws, FP16, Family, Mask, NO_ZERO, assert_bit_identical, in_full, seed_of_draws, train_on_devices,
    two_steps,
};

use super::devices;
use super::training::on_gpus;

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn draws_of_all_features_give_the_bits_of_one_pipeline_rank() {
    let devices = devices();
    let mut draws = Draws(seed_of_draws().unwrap_or(5));
    let num_draws = if in_full() { 20 } else { 1 };
    for draw in 0..num_draws {
        let sizes = [GRIDS.len(), ZERO.len(), UNITS.len(), PRECISIONS.len(), CHECKPOINTING.len()];
        let [grid, zero, units, precision, checkpointing] = sizes.map(|size| draws.below(size));
        let [model, data, vocabulary] =
            [MODELS.len(), DATA.len(), VOCABULARIES.len()].map(|size| draws.below(size));
        let choice = [grid, zero, units, precision, checkpointing, model, data, vocabulary];
        // Two cases of three drop elements, which is where values are rounded in the most places.
        let case = features::case_of(choice);
        let dropout = if draw % 3 == 2 || case.family == Family::Llama { 0.0 } else { 0.1 };
        let case = Case { dropout, ..case };
        let [found, expected] = [(&devices[..], case.clone()), (&devices[..1], case.clone().reference())]
            .map(|(devices, case)| {
                train_on_devices(devices, on_gpus(two_steps(case)), Mask::Uneven).expect("it trains")
            });
        assert_bit_identical(&found, &expected, &format!("{case:?}"));
    }
}

/// What is rounded where elements are dropped is the same in the embedding's one layer and in its two.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn an_embedding_in_slices_rounds_what_a_whole_one_rounds() {
    let devices = devices();
    for precision in [Precision::Bf16, FP16] {
        for unit_layers in [UnitLayers::Half, UnitLayers::ONE, UnitLayers::of_blocks(2).expect("2 is not 0")]
        {
            let sharded =
                ZeroConfig { level: ZeroLevel::Zero3, reduce: ReductionPolicy::Last, unit_layers, ..NO_ZERO };
            let case = Case {
                data: 2,
                zero: sharded,
                num_layers: 1,
                precision,
                dropout: 0.2,
                vocab_size: 1025,
                vocabulary: VocabularyConfig::new(2, HeadLogits::Keep),
                ..Case::ONE_RANK
            };
            let whole = Case { vocabulary: VocabularyConfig::WHOLE, ..case.clone() };
            let [found, expected] = [case.clone(), whole].map(|case| {
                train_on_devices(&devices, on_gpus(two_steps(case)), Mask::Uneven).expect("it trains")
            });
            assert_bit_identical(&found, &expected, &format!("{case:?}"));
        }
    }
}
