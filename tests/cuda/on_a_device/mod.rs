//! What is asked of the GPUs of this host.

mod failing;
mod features;
mod kernel_times;
mod kernels;
mod memory;
mod nccl;
mod nccl_calls;
mod nccl_faults;
mod nccl_processes;
mod nccl_schedules;
mod orders;
mod processes;
mod real_nccl;
mod state;
mod times;
mod training;

use std::sync::{Arc, OnceLock};

use pipezero_models::Device;
use pipezero_models::queue::{Cuda, F32Products};

/// The first, which is opened once.
fn device() -> Arc<Cuda> {
    static DEVICE: OnceLock<Arc<Cuda>> = OnceLock::new();
    Arc::clone(
        DEVICE.get_or_init(|| Arc::new(Cuda::open(0, F32Products::Whole).expect("a GPU, or the fake GPU"))),
    )
}

/// All of this host.
fn devices() -> Vec<Arc<dyn Device>> {
    let all = Cuda::open_all(F32Products::Whole).expect("a GPU, or the fake GPU");
    all.into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect()
}
