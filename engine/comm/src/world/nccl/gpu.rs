//! The GPU of a process that a launcher has started.

use pipezero_files::host::{self, LaunchedProcess};
use pipezero_models::queue::{Cuda, F32Products, nccl_version};
use serde::{Deserialize, Serialize};

use super::super::error::WorldError;

/// What the other processes must know of a rank's GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GpuFacts {
    /// What the host is called.
    pub(super) host: String,
    /// Its number among those that the process sees.
    pub(super) ordinal: usize,
    /// What people call the GPU.
    pub(super) name: String,
    /// What tells it from all others.
    pub(super) uuid: [u8; 16],
    pub(super) num_multiprocessors: usize,
    /// The version of NCCL.
    pub(super) nccl: String,
}

/// Opens the GPU of this process: the one that it sees, or of several the one of its place on the host.
///
/// # Errors
/// When there is none for it, or no NCCL.
pub(super) fn own_gpu(
    launched: &LaunchedProcess,
    f32_products: F32Products,
) -> Result<(Cuda, GpuFacts), WorldError> {
    // The driver first: a host without a GPU needs no NCCL.
    let num_gpus = Cuda::num_devices()?;
    let nccl = nccl_version()?;
    let place = launched.local.map_or(launched.rank, |local| local.rank);
    let ordinal = match (num_gpus, launched.local) {
        // The launcher has given each process its own.
        (1, _) => 0,
        (_, None) => place % num_gpus,
        (_, Some(_)) if place < num_gpus => place,
        (_, Some(local)) => {
            return Err(WorldError::TooFewGpus { num_ranks: local.size, num_gpus, are_threads: false });
        }
    };
    let gpu = Cuda::open(ordinal, f32_products)?;
    let facts = GpuFacts {
        host: host::name(),
        ordinal,
        name: gpu.name()?,
        uuid: gpu.uuid()?,
        num_multiprocessors: gpu.num_multiprocessors()?,
        nccl,
    };
    Ok((gpu, facts))
}
