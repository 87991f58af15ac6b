//! A GPU computes what the host computes. These tests need one, or the imitation of one on which the gate runs them:
//!
//! ```console
//! $ cargo test -p tests --test it -- cuda::on_a_device --ignored    # on a host with a GPU
//! ```

mod on_a_device;

use std::path::Path;

use pipezero::models::queue::{Cuda, NoCuda};
use tests::{Imitated, checked_imitation, imitation, in_full, run_on_imitation};

/// Runs tests in several orders of the imitation's streams.
fn in_several_orders(folder: &Path, tests: &str, num_devices: usize) {
    let num_orders = if in_full() { 20 } else { 2 };
    for seed in 0..num_orders {
        run_on_imitation(folder, tests, Imitated { num_devices, seed, fail_at: None });
    }
}

#[test]
fn kernels_give_what_the_host_gives_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    in_several_orders(folder, "cuda::on_a_device::kernels", 1);
}

#[test]
fn kernels_read_and_write_nothing_but_their_buffers() {
    let Some(folder) = checked_imitation() else { return };
    let imitated = Imitated { num_devices: 1, seed: 7, fail_at: None };
    run_on_imitation(folder, "cuda::on_a_device::kernels", imitated);
}

#[test]
fn grids_train_to_the_same_bits_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    if in_full() {
        in_several_orders(folder, "cuda::on_a_device::training", 1);
    }
    in_several_orders(folder, "cuda::on_a_device::training", 3);
}

#[test]
fn state_goes_between_host_and_device_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    in_several_orders(folder, "cuda::on_a_device::state", 2);
}

/// The calls of a run are some thousands; the first few hundred open the devices.
#[test]
fn a_call_that_fails_ends_a_run_with_an_error_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    let calls = if in_full() { (1..3000).step_by(7).collect() } else { vec![1, 4, 30, 90, 250, 700, 1300] };
    for number in calls {
        let imitated = Imitated { num_devices: 2, seed: number, fail_at: Some(number) };
        run_on_imitation(folder, "cuda::on_a_device::failing", imitated);
    }
}

/// On a host with the libraries there is a device, or an error about that.
#[test]
fn what_is_missing_for_a_gpu_is_named_with_its_repair() {
    if let Err(error @ NoCuda::Library { .. }) = Cuda::open(0) {
        let message = error.to_string();
        assert!(message.starts_with("no library `lib") && message.contains("LD_LIBRARY_PATH"), "{message}");
        assert!(message.contains("; install NVIDIA's "), "{message}");
    }
}
