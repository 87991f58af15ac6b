//! The backend that a run file names: the one place where it is chosen.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_config::{BackendName, DeviceName};
use pipezero_files::host::LaunchedProcess;
use pipezero_models::Device;
use pipezero_models::queue::NUM_TERMS_MAX;

use super::device::{NamedDevice, devices_of};
use super::error::WorldError;
use super::hosts::OtherHosts;
use super::nccl::nccl_of;
use super::spec::WorldSpec;
use super::{ThreadWorld, World};

/// Connects the ranks of an engine by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn connect(spec: &WorldSpec) -> Result<Arc<dyn World>, WorldError> {
    let all = spec.num_ranks();
    let world = match checked_backend(spec)? {
        BackendName::Threads => connect_threads(spec, all, spec.comm.timeout),
        BackendName::Nccl => {
            let world = nccl_of(spec, all_of_job(all)?, spec.comm.timeout, None)?;
            Ok(world.expect("each process is one of all"))
        }
        // A job of another number of processes is refused by the engine.
        BackendName::Mpi => mpi(spec.comm.timeout, spec.comm.port),
    }?;
    checked_hosts(spec, world)
}

/// Like [`connect`], for another engine on processes that the world `first` connects already. If there are several, rank 0 listens on any free port.
///
/// # Errors
/// As [`connect`].
pub fn connect_beside(spec: &WorldSpec, first: &dyn World) -> Result<Arc<dyn World>, WorldError> {
    let (all, timeout) = (spec.num_ranks(), spec.comm.timeout);
    let world = match checked_backend(spec)? {
        BackendName::Threads => connect_threads(spec, all, timeout),
        BackendName::Nccl => {
            let world = nccl_of(spec, 0..all, timeout, Some(first))?;
            Ok(world.expect("each process is one of all"))
        }
        BackendName::Mpi => mpi(timeout, Some(0)),
    }?;
    checked_hosts(spec, world)
}

/// What connects all processes of a job whose engines have ranks of their own: what they agree on goes through it, and what ranks send each other does
/// not. It is made as the world of one of the engines would be, but for how long it waits.
///
/// # Errors
/// As [`connect`].
pub fn connect_job(spec: &WorldSpec, timeout: Duration) -> Result<Arc<dyn World>, WorldError> {
    match checked_backend(spec)? {
        BackendName::Threads => connect_threads(spec, spec.num_ranks(), timeout),
        BackendName::Nccl => {
            let world = nccl_of(spec, all_of_job(0)?, timeout, None)?;
            Ok(world.expect("each process is one of all"))
        }
        BackendName::Mpi => mpi(timeout, spec.comm.port),
    }
}

/// The world of an engine that has some of the ranks of a job. `job` connects all its processes, and every process must call this; those without a
/// rank of the engine get `None`.
///
/// # Errors
/// As [`connect`].
pub fn connect_ranks(spec: &WorldSpec, job: &dyn World) -> Result<Option<Arc<dyn World>>, WorldError> {
    let first = spec.first_rank();
    let ranks = first..first + spec.num_ranks();
    let timeout = spec.comm.timeout;
    let world = match checked_backend(spec)? {
        BackendName::Threads => connect_threads(spec, ranks.len(), timeout).map(Some),
        BackendName::Nccl => nccl_of(spec, ranks, timeout, Some(job)),
        BackendName::Mpi => mpi_of_ranks(ranks, timeout, job),
    }?;
    world.map(|world| checked_hosts(spec, world)).transpose()
}

/// All ranks that a launcher has started, or as many as there are threads.
fn all_of_job(num_threads: usize) -> Result<Range<usize>, WorldError> {
    let launched = LaunchedProcess::this()?.filter(|launched| launched.size > 1);
    Ok(0..launched.map_or(num_threads, |launched| launched.size))
}

/// A world whose hosts are filled as the run file says, if it does.
fn checked_hosts(spec: &WorldSpec, world: Arc<dyn World>) -> Result<Arc<dyn World>, WorldError> {
    // Stopped before this process ends, and with it perhaps what another has still to read.
    OtherHosts::check(spec.comm.ranks_per_node, &*world).inspect_err(|_| world.stop())?;
    Ok(world)
}

/// Like [`connect`], for the first `num_ranks` ranks. `timeout` bounds every wait, start-up included. Every process must call it; those without such a
/// rank get `None`. `around`: an existing world over all processes, if any.
///
/// # Errors
/// As [`connect`].
pub fn connect_first(
    spec: &WorldSpec,
    num_ranks: usize,
    timeout: Duration,
    around: Option<&dyn World>,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    match checked_backend(spec)? {
        BackendName::Threads => connect_threads(spec, num_ranks, timeout).map(Some),
        BackendName::Mpi => mpi_of_first(spec, num_ranks, timeout),
        BackendName::Nccl => {
            let ranks = if around.is_some() { 0..num_ranks } else { all_of_job(num_ranks)? };
            nccl_of(spec, ranks, timeout, around)
        }
    }
}

/// Connects `num_ranks` ranks as threads of this process, whatever the backend, on the engine's `device` and over its emulated links.
///
/// # Errors
/// When this process does not have the device.
pub fn connect_threads(
    spec: &WorldSpec,
    num_ranks: usize,
    timeout: Duration,
) -> Result<Arc<dyn World>, WorldError> {
    let devices = devices_of(spec)?;
    let comm = &spec.comm;
    let first = spec.first_rank();
    Ok(Arc::new(ThreadWorld::from_rank(first, &devices, num_ranks, timeout, comm.links)))
}

/// The backend, if this process can be part of it.
fn checked_backend(spec: &WorldSpec) -> Result<BackendName, WorldError> {
    match (spec.comm.backend, LaunchedProcess::this()?) {
        (BackendName::Threads, Some(LaunchedProcess { size, .. })) if size > 1 => {
            Err(WorldError::Launched { num_processes: size })
        }
        (BackendName::Mpi, _) if spec.device != DeviceName::Cpu => Err(WorldError::MpiOnGpus),
        (BackendName::Threads, _)
            if spec.device == DeviceName::Cuda && spec.lanes.data_degree > NUM_TERMS_MAX =>
        {
            Err(WorldError::TooManyTerms { data_degree: spec.lanes.data_degree })
        }
        (backend, _) => Ok(backend),
    }
}

/// Threads of this process, on these devices in turn, at least one.
pub fn connect_on(spec: &WorldSpec, devices: &[Arc<dyn Device>]) -> Arc<dyn World> {
    let named = |device: &Arc<dyn Device>| {
        let name = format!("{device:?}");
        NamedDevice { device: Arc::clone(device), name }
    };
    let devices: Vec<NamedDevice> = devices.iter().map(named).collect();
    of_threads(spec, &devices)
}

fn of_threads(spec: &WorldSpec, devices: &[NamedDevice]) -> Arc<dyn World> {
    let (num_ranks, comm) = (spec.num_ranks(), &spec.comm);
    Arc::new(ThreadWorld::on(devices, num_ranks, comm.timeout, comm.links))
}

/// What the MPI library of this program says of its version; `None` of a program without MPI.
#[cfg(feature = "mpi")]
pub fn mpi_library() -> Option<String> {
    crate::mpi_library_version()
}

/// What the MPI library of this program says of its version; `None` of a program without MPI.
#[cfg(not(feature = "mpi"))]
pub fn mpi_library() -> Option<String> {
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
    spec: &WorldSpec,
    num_ranks: usize,
    timeout: Duration,
) -> Result<Option<Arc<dyn World>>, WorldError> {
    let world = super::ProcessWorld::of_first_of_mpi_again(num_ranks, timeout, spec.comm.port)?;
    Ok(world.map(|world| Arc::new(world) as _))
}

#[cfg(not(feature = "mpi"))]
fn mpi_of_first(_: &WorldSpec, _: usize, _: Duration) -> Result<Option<Arc<dyn World>>, WorldError> {
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
