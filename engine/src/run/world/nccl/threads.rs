//! Ranks that are threads of this process.

use std::sync::Arc;
use std::time::Duration;

use pipezero_models::queue::{Cuda, NcclId};

use super::super::device::f32_products;
use super::super::error::WorldError;
use super::super::{ThreadWorld, World};
use super::lanes::lanes;
use crate::plan::Plan;
use crate::run::comm::Nccl;

/// On a GPU of this process for each rank, from the first on that is not that of an earlier rank of the job.
///
/// # Errors
/// When it has fewer GPUs than the plan has ranks, or no NCCL.
pub(super) fn world(plan: &Plan, timeout: Duration) -> Result<Arc<dyn World>, WorldError> {
    let num_ranks = plan.grid().world_size();
    let first = plan.run().comm.first_rank.unwrap_or(0);
    let num_gpus = Cuda::num_devices()?;
    if num_gpus < first + num_ranks {
        return Err(WorldError::TooFewGpus { num_ranks: first + num_ranks, num_gpus, are_threads: true });
    }
    let opened = |ordinal| Cuda::open(ordinal, f32_products(plan.run()));
    let gpus: Vec<Cuda> = (first..first + num_ranks).map(opened).collect::<Result<_, _>>()?;
    let names = gpus.iter().map(Cuda::name).collect::<Result<Vec<_>, _>>()?;
    let num_multiprocessors = gpus.iter().map(Cuda::num_multiprocessors).collect::<Result<Vec<_>, _>>()?;
    let least = num_multiprocessors.into_iter().min().unwrap_or(0);
    let nccl = Nccl::new(NcclId::new()?, lanes(plan), plan.run().comm.reduction, timeout, least)?;
    Ok(Arc::new(ThreadWorld::over_nccl(nccl, first, gpus, &names, timeout)))
}
