//! The backend that a run file names: the one place where it is chosen.

use std::sync::Arc;

use pipezero_models::Device;

use super::device::{NamedDevice, devices_of};
use super::error::WorldError;
use super::{ThreadWorld, World};
use crate::config::{BackendName, DeviceName};
use crate::host::Launched;
use crate::plan::Plan;

/// What connects the ranks of a plan, by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    let (backend, launched) = (plan.run().comm.backend, Launched::this()?);
    match (backend, launched) {
        (BackendName::Threads, Some(Launched { size, .. })) if size > 1 => {
            return Err(WorldError::Launched { num_processes: size });
        }
        (BackendName::Mpi, _) if plan.run().device != DeviceName::Cpu => return Err(WorldError::MpiOnGpus),
        (BackendName::Mpi, _) => return mpi(plan),
        (BackendName::Threads, _) => {}
    }
    let devices = devices_of(plan.run())?;
    Ok(of_threads(plan, &devices))
}

/// Threads of this process, on these devices in turn, at least one.
pub fn world_on(plan: &Plan, devices: &[Arc<dyn Device>]) -> Arc<dyn World> {
    let named = |device: &Arc<dyn Device>| {
        let name = format!("{device:?}");
        NamedDevice { device: Arc::clone(device), name }
    };
    let devices: Vec<NamedDevice> = devices.iter().map(named).collect();
    of_threads(plan, &devices)
}

fn of_threads(plan: &Plan, devices: &[NamedDevice]) -> Arc<dyn World> {
    let (num_ranks, comm) = (plan.grid().world_size(), &plan.run().comm);
    Arc::new(ThreadWorld::on(devices, num_ranks, comm.timeout, comm.links))
}

#[cfg(feature = "mpi")]
fn mpi(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    Ok(Arc::new(super::MpiWorld::of_job(plan.run().comm.timeout, plan.run().comm.port)?))
}

#[cfg(not(feature = "mpi"))]
fn mpi(_: &Plan) -> Result<Arc<dyn World>, WorldError> {
    Err(WorldError::NoMpi)
}
