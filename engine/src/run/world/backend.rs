//! The backend that a run file names: the one place where it is chosen.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::Device;
use pipezero_models::queue::NUM_TERMS_MAX;

use super::device::{NamedDevice, devices_of};
use super::error::WorldError;
use super::hosts::OtherHosts;
use super::nccl::nccl_of;
use super::{ThreadWorld, World};
use crate::config::{BackendName, DeviceName};
use crate::host::Launched;
use crate::plan::Plan;

/// What connects the ranks of a plan, by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    let all = plan.grid().world_size();
    let world = match checked_backend(plan)? {
        BackendName::Threads => threads_of(plan, all, plan.run().comm.timeout),
        BackendName::Nccl => {
            let world = nccl_of(plan, all_of_job(all)?, plan.run().comm.timeout, None)?;
            Ok(world.expect("each process is one of all"))
        }
        // A job of another number of processes is refused by the engine.
        BackendName::Mpi => mpi(plan.run().comm.timeout, plan.run().comm.port),
    }?;
    checked_hosts(plan, world)
}

/// As [`world_of`], for another engine of the processes that this world connects. If they are several, rank 0 listens on any port that is free.
///
/// # Errors
/// As [`world_of`].
pub(crate) fn world_beside(plan: &Plan, first: &dyn World) -> Result<Arc<dyn World>, WorldError> {
    let (all, timeout) = (plan.grid().world_size(), plan.run().comm.timeout);
    let world = match checked_backend(plan)? {
        BackendName::Threads => threads_of(plan, all, timeout),
        BackendName::Nccl => {
            let world = nccl_of(plan, 0..all, timeout, Some(first))?;
            Ok(world.expect("each process is one of all"))
        }
        BackendName::Mpi => mpi(timeout, Some(0)),
    }?;
    checked_hosts(plan, world)
}

/// What connects all processes of a job whose engines have ranks of their own: what they agree on goes through it, and what ranks send each other does
/// not. It is made as the world of a plan of one of the engines would be, but for how long it waits.
///
/// # Errors
/// As [`world_of`].
pub(crate) fn world_of_job(plan: &Plan, timeout: Duration) -> Result<Arc<dyn World>, WorldError> {
    match checked_backend(plan)? {
        BackendName::Threads => threads_of(plan, plan.grid().world_size(), timeout),
        BackendName::Nccl => {
            let world = nccl_of(plan, all_of_job(0)?, timeout, None)?;
            Ok(world.expect("each process is one of all"))
        }
        BackendName::Mpi => mpi(timeout, plan.run().comm.port),
    }
}

/// The world of a plan whose ranks are some of those of a job, which `job` connects. `None` in the processes of the others, which call it too.
///
/// # Errors
/// As [`world_of`].
pub(crate) fn world_on_ranks(plan: &Plan, job: &dyn World) -> Result<Option<Arc<dyn World>>, WorldError> {
    let first = plan.run().comm.first_rank.unwrap_or(0);
    let ranks = first..first + plan.grid().world_size();
    let timeout = plan.run().comm.timeout;
    let world = match checked_backend(plan)? {
        BackendName::Threads => threads_of(plan, ranks.len(), timeout).map(Some),
        BackendName::Nccl => nccl_of(plan, ranks, timeout, Some(job)),
        BackendName::Mpi => mpi_of_ranks(ranks, timeout, job),
    }?;
    world.map(|world| checked_hosts(plan, world)).transpose()
}

/// All ranks that a launcher has started, or as many as there are threads.
fn all_of_job(num_threads: usize) -> Result<Range<usize>, WorldError> {
    let launched = Launched::this()?.filter(|launched| launched.size > 1);
    Ok(0..launched.map_or(num_threads, |launched| launched.size))
}

/// A world whose hosts are filled as the run file says, if it does.
fn checked_hosts(plan: &Plan, world: Arc<dyn World>) -> Result<Arc<dyn World>, WorldError> {
    // Stopped before this process ends, and with it perhaps what another has still to read.
    OtherHosts::check(plan.run().comm.ranks_per_node, &*world).inspect_err(|_| world.stop())?;
    Ok(world)
}

/// As [`world_of`], of the first so many ranks alone, and no wait lasts longer than this, that for all processes to come neither. `None` in the
/// processes of the others, which call it too. `around` connects all of them already, if anything does.
///
/// # Errors
/// As [`world_of`].
pub(crate) fn world_of_first(
    plan: &Plan,
    num_ranks: usize,
    timeout: Duration,
    around: Option<&dyn World>,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    match checked_backend(plan)? {
        BackendName::Threads => threads_of(plan, num_ranks, timeout).map(Some),
        BackendName::Mpi => mpi_of_first(plan, num_ranks, timeout),
        BackendName::Nccl => {
            let ranks = if around.is_some() { 0..num_ranks } else { all_of_job(num_ranks)? };
            nccl_of(plan, ranks, timeout, around)
        }
    }
}

/// So many ranks that are threads of this process, whatever the backend, on the plan's `device` and over its imitated links.
///
/// # Errors
/// When this process does not have the device.
pub(crate) fn threads_of(
    plan: &Plan,
    num_ranks: usize,
    timeout: Duration,
) -> Result<Arc<dyn World>, WorldError> {
    let devices = devices_of(plan.run())?;
    let comm = &plan.run().comm;
    let first = comm.first_rank.unwrap_or(0);
    Ok(Arc::new(ThreadWorld::from_rank(first, &devices, num_ranks, timeout, comm.links)))
}

/// The backend, if this process can be part of it.
fn checked_backend(plan: &Plan) -> Result<BackendName, WorldError> {
    match (plan.run().comm.backend, Launched::this()?) {
        (BackendName::Threads, Some(Launched { size, .. })) if size > 1 => {
            Err(WorldError::Launched { num_processes: size })
        }
        (BackendName::Mpi, _) if plan.run().device != DeviceName::Cpu => Err(WorldError::MpiOnGpus),
        (BackendName::Threads, _)
            if plan.run().device == DeviceName::Cuda && plan.grid().data_degree > NUM_TERMS_MAX =>
        {
            Err(WorldError::TooManyTerms { data_degree: plan.grid().data_degree })
        }
        (backend, _) => Ok(backend),
    }
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

/// What the MPI library of this program says of its version; `None` of a program without MPI.
#[cfg(feature = "mpi")]
pub(crate) fn mpi_library() -> Option<String> {
    crate::run::comm::mpi_library_version()
}

/// What the MPI library of this program says of its version; `None` of a program without MPI.
#[cfg(not(feature = "mpi"))]
pub(crate) fn mpi_library() -> Option<String> {
    None
}

#[cfg(feature = "mpi")]
fn mpi(timeout: Duration, port: Option<u16>) -> Result<Arc<dyn World>, WorldError> {
    Ok(Arc::new(super::ProcessWorld::of_mpi(timeout, port)?))
}

#[cfg(not(feature = "mpi"))]
fn mpi(_: Duration, _: Option<u16>) -> Result<Arc<dyn World>, WorldError> {
    Err(WorldError::NoMpi)
}

#[cfg(feature = "mpi")]
fn mpi_of_first(
    plan: &Plan,
    num_ranks: usize,
    timeout: Duration,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    let world = super::ProcessWorld::of_first_of_mpi_again(num_ranks, timeout, plan.run().comm.port)?;
    Ok(world.map(|world| Arc::new(world) as _))
}

#[cfg(not(feature = "mpi"))]
fn mpi_of_first(_: &Plan, _: usize, _: Duration) -> Result<Option<Arc<dyn World>>, WorldError> {
    Err(WorldError::NoMpi)
}

#[cfg(feature = "mpi")]
fn mpi_of_ranks(
    ranks: Range<usize>,
    timeout: Duration,
    job: &dyn World,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    let world = super::ProcessWorld::of_ranks_of_mpi(ranks, timeout, job)?;
    Ok(world.map(|world| Arc::new(world) as _))
}

#[cfg(not(feature = "mpi"))]
fn mpi_of_ranks(_: Range<usize>, _: Duration, _: &dyn World) -> Result<Option<Arc<dyn World>>, WorldError> {
    Err(WorldError::NoMpi)
}
