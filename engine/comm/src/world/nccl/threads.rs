//! Ranks that are threads of this process.

use std::sync::Arc;
use std::time::Duration;

use pipezero_models::queue::{Cuda, NcclId};

use super::super::error::WorldError;
use super::super::spec::WorldSpec;
use super::super::{ThreadWorld, World};
use crate::Nccl;

/// On a GPU of this process for each rank, from the first on that is not that of an earlier rank of the job.
///
/// # Errors
/// When it has fewer GPUs than there are ranks, or no NCCL.
pub(super) fn world(spec: &WorldSpec, timeout: Duration) -> Result<Arc<dyn World>, WorldError> {
    let num_ranks = spec.num_ranks();
    let first = spec.first_rank();
    let num_gpus = Cuda::num_devices()?;
    if num_gpus < first + num_ranks {
        return Err(WorldError::TooFewGpus { num_ranks: first + num_ranks, num_gpus, are_threads: true });
    }
    let opened = |ordinal| Cuda::open(ordinal, spec.f32_products);
    let gpus: Vec<Cuda> = (first..first + num_ranks).map(opened).collect::<Result<_, _>>()?;
    let names = gpus.iter().map(Cuda::name).collect::<Result<Vec<_>, _>>()?;
    let num_multiprocessors = gpus.iter().map(Cuda::num_multiprocessors).collect::<Result<Vec<_>, _>>()?;
    let least = num_multiprocessors.into_iter().min().unwrap_or(0);
    let nccl = Nccl::new(NcclId::new()?, spec.lanes.clone(), spec.comm.reduction, timeout, least)?;
    Ok(Arc::new(ThreadWorld::over_nccl(nccl, first, gpus, &names, timeout)))
}
