//! Dropout through the engine: its masks belong to sequences, not to micro-batches or ranks, and evaluation has none.

use std::sync::Arc;

use pipezero_config::{ResidencyConfig, Run, ZeroLevel};
use pipezero_run::engine::Engine;
use tests::{Case, Mask, SGD, Trained, assert_close, plan_and_batches, small_run, train, zero};

/// A run whose steps have 12 sequences, however they are cut.
fn run(case: Case, micro_batch_size: usize) -> Run {
    let mut run = Run { optimizer: SGD, ..small_run(case.clone()) };
    run.batch.micro_batch_size = micro_batch_size;
    run.batch.train_batch_size = micro_batch_size * case.num_micro_batches * case.data;
    assert_eq!(run.batch.train_batch_size, 12);
    run
}

/// Sums are taken in another order, so f32 rounds differently: a few units in the last place over five steps.
#[test]
fn a_sequence_has_the_same_masks_whatever_its_micro_batch_and_data_rank() {
    let dropout = 0.2;
    let one = |seed| {
        let case = Case { num_micro_batches: 1, dropout, ..Case::ONE_RANK };
        train(Run { seed, ..run(case, 12) }, Mask::None)
    };
    let wanted = one(7);
    let zero3 = zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1);
    for (pipeline, data, num_micro_batches) in [(1, 1, 12), (1, 1, 4), (2, 2, 3), (2, 3, 1), (4, 2, 6)] {
        let grid = Case { pipeline, data, num_micro_batches, ..Case::ONE_RANK };
        let case = Case { zero: zero3.clone(), dropout, ..grid };
        let micro_batch_size = 12 / (data * num_micro_batches);
        assert_close(
            &train(run(case.clone(), micro_batch_size), Mask::None),
            &wanted,
            1e-5,
            &format!("{case:?}"),
        );
    }
    // Other masks are farther away by orders of magnitude: the comparison above would see them.
    let case = Case { num_micro_batches: 1, ..Case::ONE_RANK };
    let undropped = train(run(case, 12), Mask::None);
    assert!(first_difference(&wanted, &undropped) > 1e-3);
}

/// Of the first step's losses, before any update.
fn first_difference(a: &Trained, b: &Trained) -> f64 {
    (a.losses[0] - b.losses[0]).abs() / b.losses[0]
}

#[test]
fn evaluation_drops_nothing() {
    for pipeline in [1, 2] {
        let [without, with] = [0.0, 0.5].map(|dropout| {
            let case = Case { pipeline, dropout, ..Case::ONE_RANK };
            let (plan, source) = plan_and_batches(small_run(case), Mask::None);
            let mut engine = Engine::new(plan, Arc::clone(&source)).expect("ranks start");
            let evaluated = engine.eval_batch(&source, 1).expect("an evaluation").loss.expect("targets");
            let logits = engine.logits(&[1, 2, 3]).expect("logits");
            let trained = engine.train_batch().expect("a step").loss.expect("targets");
            (evaluated, logits, trained)
        });
        assert_eq!(without.0.to_bits(), with.0.to_bits(), "the loss on {pipeline} ranks");
        assert_eq!(without.1, with.1, "the logits on {pipeline} ranks");
        assert_ne!(without.2, with.2, "training drops on {pipeline} ranks");
        assert_eq!(without.0.to_bits(), without.2.to_bits(), "nothing to drop on {pipeline} ranks");
    }
}
