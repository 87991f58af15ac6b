//! The backend that a run file names: the one place where it is chosen.

use std::sync::Arc;

use pipezero_models::Device;
use pipezero_models::queue::NoCuda;

use super::device::{NamedDevice, devices_of};
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
    #[error("`device`: {0}; or use \"cpu\" (--set device=cpu, of eval and generate --device cpu)")]
    Device(#[from] NoCuda),
}

/// What connects the ranks of a plan, by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    let devices = devices_of(plan.run())?;
    Ok(connected(plan, &devices)?)
}

/// As [`world_of`], with ranks on these devices in turn, at least one.
///
/// # Errors
/// When this process cannot be connected with the others.
pub fn world_on(plan: &Plan, devices: &[Arc<dyn Device>]) -> Result<Arc<dyn World>, CommError> {
    let named = |device: &Arc<dyn Device>| {
        let name = format!("{device:?}");
        NamedDevice { device: Arc::clone(device), name }
    };
    let devices: Vec<NamedDevice> = devices.iter().map(named).collect();
    connected(plan, &devices)
}

fn connected(plan: &Plan, devices: &[NamedDevice]) -> Result<Arc<dyn World>, CommError> {
    let (num_ranks, comm) = (plan.grid().world_size(), &plan.run().comm);
    match comm.backend {
        BackendName::Threads => Ok(Arc::new(ThreadWorld::on(devices, num_ranks, comm.timeout, comm.links))),
    }
}
