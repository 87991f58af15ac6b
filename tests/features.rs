//! What no feature may change: schedules, residencies, prefetching, cuts, recomputation and dropout give the bits of one
//! pipeline rank at the same data degree, reduction policy and precision (`docs/numerics.md`).
//!
//! The full product is far too large, so runs are drawn from it until every pair of values of two dimensions has been
//! run; which pairs are left is counted. The gate runs a sample of these runs.

use std::collections::HashMap;

use pipezero_config::Precision;
use tests::features::{self, CHECKPOINTING, DATA, GRIDS, MODELS, PRECISIONS, UNITS, VOCABULARIES, ZERO};
use tests::{Case, FP16, Family, Mask, Sample, Trained, assert_bit_identical, pairwise, small_run, train};

const DROPOUT: [f64; 2] = [0.0, 0.1];

/// Number of values of each dimension, in the order of [`case_of`].
const SIZES: [usize; 9] = [
    GRIDS.len(),
    ZERO.len(),
    UNITS.len(),
    PRECISIONS.len(),
    CHECKPOINTING.len(),
    DROPOUT.len(),
    MODELS.len(),
    DATA.len(),
    VOCABULARIES.len(),
];

/// A value of each dimension.
type Choice = [usize; SIZES.len()];

fn case_of(choice: Choice) -> Case {
    let [grid, zero, units, precision, checkpointing, dropout, model, data, vocabulary] = choice;
    let case = features::case_of([grid, zero, units, precision, checkpointing, model, data, vocabulary]);
    // Llama has none.
    let dropout = if case.family == Family::Gpt2 { DROPOUT[dropout] } else { 0.0 };
    Case { dropout, ..case }
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
        let reference = case.clone().reference();
        let key = format!("{reference:?}");
        let wanted = references.entry(key).or_insert_with(|| run(reference.clone()));
        wanted.assert_clipped(&format!("{reference:?}"));
        assert!(!wanted.last.skipped, "nothing overflows in {reference:?}");
        assert_bit_identical(&run(case.clone()), wanted, &format!("{case:?}"));
    }
}

fn run(case: Case) -> Trained {
    let mut run = small_run(case);
    run.steps = 3;
    train(run, Mask::Uneven)
}

/// Dropout, documents and precision do change numbers, so the comparison above is not of things that have no effect.
#[test]
fn dropout_documents_and_precision_change_the_loss() {
    let case = Case { num_layers: 2, ..Case::ONE_RANK };
    let losses = |case| run(case).losses;
    let plain = losses(case.clone());
    for other in [
        Case { dropout: 0.1, ..case.clone() },
        Case { document_attention: true, ..case.clone() },
        Case { precision: Precision::Bf16, ..case.clone() },
        Case { precision: FP16, ..case.clone() },
    ] {
        assert_ne!(losses(other.clone()), plain, "{other:?}");
    }
}
