//! Training on GPUs: along the host's losses, and to the same bits on every grid and on one GPU or several.

use std::collections::HashMap;

use pipezero::config::{DeviceName, Precision, Run};
use tests::{Mask, Sample, assert_bit_identical, grids, train, train_on_devices, two_steps};

use super::devices;

/// How far losses and gradient norms may be from the host's, as a share: both add in f32 and in other orders; in 16 bits a sum near the middle
/// of two values is rounded to the other one. Weights are not compared: AdamW makes a step of the same length of a gradient that is rounding alone, as
/// that of a key's bias is.
fn tolerance(precision: Precision) -> f64 {
    if precision == Precision::F32 { 1e-5 } else { 5e-3 }
}

#[test]
#[ignore = "needs a GPU, or the imitation of one"]
fn every_grid_gives_the_bits_of_one_pipeline_rank_and_the_losses_of_the_host() {
    let devices = devices();
    let mut references = HashMap::new();
    let mut sample = Sample::one_in(3, "grid on a GPU, to the bits of one pipeline rank there");
    for case in grids().into_iter().filter(|_| sample.takes_next()) {
        let name = format!("{case:?}");
        let run = two_steps(case.clone());
        let trained =
            train_on_devices(&devices, Run { device: DeviceName::Cuda, ..run.clone() }, Mask::Uneven)
                .expect("it trains");
        let on_host = train(run, Mask::Uneven);
        let pairs =
            trained.losses.iter().zip(&on_host.losses).chain(trained.norms.iter().zip(&on_host.norms));
        for (found, expected) in pairs {
            let share = (found - expected).abs() / expected;
            assert!(
                share <= tolerance(case.precision),
                "{found} is {share:.1e} from the host's {expected} in {name}"
            );
        }
        let reference = case.reference();
        let reference = references.entry(format!("{reference:?}")).or_insert_with(|| {
            let run = Run { device: DeviceName::Cuda, ..two_steps(reference) };
            train_on_devices(&devices[..1], run, Mask::Uneven).expect("it trains")
        });
        assert_bit_identical(&trained, reference, &name);
    }
}
