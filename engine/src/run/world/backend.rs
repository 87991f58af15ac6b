//! The backend that a run file names: the one place where it is chosen.

use std::sync::Arc;

use pipezero_models::{Device, Host};

use super::{ThreadWorld, World};
use crate::config::BackendName;
use crate::plan::Plan;
use crate::run::comm::CommError;

/// What connects the ranks of a plan, by its `comm.backend`, on the host.
///
/// # Errors
/// When this process cannot be connected with the others.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, CommError> {
    world_on(plan, Arc::new(Host))
}

/// As [`world_of`], with the ranks on a device.
///
/// # Errors
/// As [`world_of`].
pub fn world_on(plan: &Plan, device: Arc<dyn Device>) -> Result<Arc<dyn World>, CommError> {
    let (num_ranks, comm) = (plan.grid().world_size(), &plan.run().comm);
    match comm.backend {
        BackendName::Threads => Ok(Arc::new(ThreadWorld::on(device, num_ranks, comm.timeout, comm.links))),
    }
}
