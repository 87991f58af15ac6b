//! Ranks with a GPU each, connected by NCCL, train to the bits of ranks that share one.

use std::collections::HashMap;

use pipezero::config::{BackendName, CommConfig, ReductionOrder, Run};
use pipezero::models::queue::Cuda;
use tests::{Case, Mask, Sample, assert_bit_identical, grids, train, train_on_devices, two_steps};

use super::devices;
use super::training::on_gpus;

fn over_nccl(run: Run) -> Run {
    Run { comm: CommConfig { backend: BackendName::Nccl, ..run.comm }, ..run }
}

#[test]
#[ignore = "needs several GPUs, or the imitation of them"]
fn every_grid_gives_the_bits_of_one_pipeline_rank() {
    let (devices, num_devices) = (devices(), Cuda::num_devices().expect("GPUs"));
    let mut references = HashMap::new();
    let mut sample = Sample::one_in(3, "grid on GPUs that NCCL connects, to the bits of one pipeline rank");
    let fits = |case: &Case| case.pipeline * case.data <= num_devices;
    for case in grids().into_iter().filter(fits).filter(|_| sample.takes_next()) {
        let name = format!("{case:?}");
        let trained = train(over_nccl(on_gpus(two_steps(case.clone()))), Mask::Uneven);
        let reference = case.reference();
        let reference = references.entry(format!("{reference:?}")).or_insert_with(|| {
            train_on_devices(&devices[..1], on_gpus(two_steps(reference)), Mask::Uneven).expect("it trains")
        });
        assert_bit_identical(&trained, reference, &name);
    }
}

/// Sums in another order differ in their last bits from three terms on: `a + b` is `b + a`.
#[test]
#[ignore = "needs several GPUs, or the imitation of them"]
fn the_library_s_order_of_sums_is_close_and_its_own() {
    let by = |order, data| {
        let case = Case { data, num_micro_batches: 2, ..Case::ONE_RANK };
        let run = over_nccl(on_gpus(two_steps(case)));
        let comm = CommConfig { reduction: order, ..run.comm };
        train(Run { comm, ..run }, Mask::Uneven)
    };
    for data in [2, 4] {
        let [ordered, library] =
            [ReductionOrder::Ordered, ReductionOrder::Library].map(|order| by(order, data));
        for (one, other) in
            ordered.losses.iter().chain(&ordered.norms).zip(library.losses.iter().chain(&library.norms))
        {
            assert!((one - other).abs() <= 1e-5 * one.abs(), "{one} and {other} with {data} data ranks");
        }
        let is_same = ordered.weights == library.weights;
        assert_eq!(is_same, data < 3, "{data} data ranks");
    }
}
