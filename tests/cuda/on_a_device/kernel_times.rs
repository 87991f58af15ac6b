//! Every kernel of a step is timed, as often as the step asks for it.

use std::sync::Arc;

use pipezero_config::{DeviceName, Precision, Run};
use pipezero_models::Device;
use pipezero_models::queue::KernelTime;
use pipezero_run::engine::Engine;
use tests::{Case, Mask, plan_and_batches, small_run};

use super::device;

const LAYERS: u64 = 3;
const MICRO_BATCHES: u64 = 2;

/// How often each kernel is called, whatever its size.
fn num_calls(times: &[KernelTime], kernel: &str) -> u64 {
    times.iter().filter(|time| time.kernel == kernel).map(|time| time.num_calls).sum()
}

/// The kernels of GPT-2's formulas, by hand: each block has two norms, one attention and four linear maps, whose backward is two products each.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn every_kernel_of_a_step_is_timed() {
    let case = Case {
        num_layers: LAYERS as usize,
        num_micro_batches: MICRO_BATCHES as usize,
        precision: Precision::Bf16,
        ..Case::ONE_RANK
    };
    let (plan, source) = plan_and_batches(Run { device: DeviceName::Cuda, ..small_run(case) }, Mask::None);
    let device = device();
    let mut engine = Engine::on_device(plan, source, Arc::clone(&device) as Arc<_>).expect("ranks start");
    let stopped = || device.stop_kernel_times().expect("no failure").expect("a GPU times its kernels");
    engine.train_batch().expect("a step");
    assert_eq!(stopped(), [], "nothing was to be timed");

    device.start_kernel_times();
    engine.train_batch().expect("a step");
    let times = stopped();
    for (kernel, of_micro_batch) in [
        ("embedding", 1),
        ("embedding_backward", 1),
        ("add_positions", 1),
        ("norm_forward", 2 * LAYERS + 1),
        ("norm_backward_input", 2 * LAYERS + 1),
        ("cross_entropy", 1),
        ("cross_entropy_backward", 1),
    ] {
        assert_eq!(num_calls(&times, kernel), of_micro_batch * MICRO_BATCHES, "{kernel}: {times:#?}");
    }
    // A head, whose backward is two products too.
    let products = (3 * 4 * LAYERS + 3) * MICRO_BATCHES;
    assert_eq!(num_calls(&times, "cublasLtMatmul"), products, "{times:#?}");
    assert!(times.iter().all(|time| time.ns > 0), "{times:#?}");
    let mut names: Vec<_> = times.iter().map(|time| (&time.kernel, &time.size)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), times.len(), "each kernel and size has one line");

    engine.train_batch().expect("a step");
    assert_eq!(stopped(), [], "and nothing is timed any more");
}
