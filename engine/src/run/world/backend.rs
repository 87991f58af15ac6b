//! The backend that a run file names: the one place where it is chosen.

use std::sync::Arc;

use pipezero_models::Device;
use pipezero_models::queue::NoCuda;

use super::device::{Chosen, device_of};
use super::{ThreadWorld, World};
use crate::config::BackendName;
use crate::plan::Plan;
use crate::run::comm::CommError;

/// Why there is no world for a plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorldError {
    /// This process cannot be connected with the others.
    #[error("the ranks cannot be connected: {0}")]
    Connect(#[from] CommError),
    /// There is no such device.
    #[error("`device`: {0}; or use \"cpu\"")]
    Device(#[from] NoCuda),
}

/// What connects the ranks of a plan, by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    let Chosen { device, name } = device_of(plan.run().device)?;
    Ok(connected(plan, device, name)?)
}

/// As [`world_of`], with the ranks on a device.
///
/// # Errors
/// When this process cannot be connected with the others.
pub fn world_on(plan: &Plan, device: Arc<dyn Device>) -> Result<Arc<dyn World>, CommError> {
    let name = format!("{device:?}");
    connected(plan, device, name)
}

fn connected(plan: &Plan, device: Arc<dyn Device>, name: String) -> Result<Arc<dyn World>, CommError> {
    let (num_ranks, comm) = (plan.grid().world_size(), &plan.run().comm);
    match comm.backend {
        BackendName::Threads => {
            let world = ThreadWorld::on(device, num_ranks, comm.timeout, comm.links);
            Ok(Arc::new(world.named(name)))
        }
    }
}
