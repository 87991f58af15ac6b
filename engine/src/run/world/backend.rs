//! The backend that a run file names: the one place where it is chosen.

use std::sync::Arc;

use pipezero_models::Device;
use pipezero_models::queue::NoCuda;

use super::device::{NamedDevice, devices_of};
use super::{ThreadWorld, World};
use crate::config::{BackendName, DeviceName};
use crate::host::Launched;
use crate::plan::Plan;
use crate::run::comm::CommError;

/// Why there is no world for a plan.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WorldError {
    /// This process cannot be connected with the others.
    #[error("the ranks cannot be connected: {0}")]
    Connect(#[from] CommError),
    /// The processes of a job cannot be connected.
    #[error("the processes of this job cannot be connected: {reason}")]
    NotConnected {
        /// Why.
        reason: String,
    },
    /// This program cannot use MPI.
    #[error(
        "`comm.backend` is \"mpi\", and this pipezero was built without MPI: build it with `cargo build --release --features mpi`, or use \"threads\""
    )]
    NoMpi,
    /// Messages of MPI are between memories of hosts.
    #[error("`comm.backend` \"mpi\" is for ranks on CPUs: use `device` \"cpu\" (--set device=cpu)")]
    MpiOnGpus,
    /// Each process would be all ranks.
    #[error(
        "the launcher started {num_processes} processes, and with `comm.backend` \"threads\" each of them would run all ranks: use \"mpi\", or start \
         pipezero once"
    )]
    Launched {
        /// How many.
        num_processes: usize,
    },
    /// There is no such device.
    #[error("`device`: {0}; or use \"cpu\" (--set device=cpu, of eval and generate --device cpu)")]
    Device(#[from] NoCuda),
}

/// What connects the ranks of a plan, by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    let (backend, launched) = (plan.run().comm.backend, Launched::this());
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
    Ok(Arc::new(super::MpiWorld::of_job(plan.run().comm.timeout)?))
}

#[cfg(not(feature = "mpi"))]
fn mpi(_: &Plan) -> Result<Arc<dyn World>, WorldError> {
    Err(WorldError::NoMpi)
}
