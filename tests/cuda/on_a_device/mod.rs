//! What is asked of the first GPU of this host.

mod kernels;
mod state;
mod training;

use std::sync::Arc;

use pipezero::models::queue::Cuda;

fn device() -> Arc<Cuda> {
    Arc::new(Cuda::open(0).expect("a GPU, or the imitation of one"))
}
