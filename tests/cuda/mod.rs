//! A GPU computes what the host computes. These tests need one, or the imitation of one on which the gate runs them:
//!
//! ```console
//! $ cargo test -p tests --test it -- cuda::on_a_device --ignored    # on a host with a GPU
//! ```

mod on_a_device;

use pipezero::models::queue::{Cuda, NoCuda};
use tests::{imitation, in_full, run_on_imitation};

/// Orders of the imitation's streams.
fn seeds() -> u64 {
    if in_full() { 20 } else { 2 }
}

#[test]
fn kernels_give_what_the_host_gives_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    (0..seeds()).for_each(|seed| run_on_imitation(folder, "cuda::on_a_device::kernels", 1, seed));
}

#[test]
fn grids_train_to_the_same_bits_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    for num_devices in [1, 3] {
        (0..seeds())
            .for_each(|seed| run_on_imitation(folder, "cuda::on_a_device::training", num_devices, seed));
    }
}

#[test]
fn state_goes_between_host_and_device_on_the_imitation() {
    let Some(folder) = imitation() else { return };
    (0..seeds()).for_each(|seed| run_on_imitation(folder, "cuda::on_a_device::state", 2, seed));
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
