//! Ranks that have a GPU each, which NCCL connects.

use std::sync::Arc;
use std::time::Duration;

use pipezero_models::queue::Cuda;

use super::device::f32_products;
use super::error::WorldError;
use super::{ThreadWorld, World};
use crate::plan::Plan;
use crate::run::comm::{Lanes, Nccl};

/// A world of a plan's ranks, which are threads of this process, on its first GPUs.
///
/// # Errors
/// When it has fewer GPUs than the plan has ranks, or no NCCL.
pub(super) fn nccl_of(plan: &Plan, timeout: Duration) -> Result<Arc<dyn World>, WorldError> {
    let num_ranks = plan.grid().world_size();
    let num_gpus = Cuda::num_devices()?;
    if num_gpus < num_ranks {
        return Err(WorldError::TooFewGpus { num_ranks, num_gpus });
    }
    let opened = |ordinal| Cuda::open(ordinal, f32_products(plan.run()));
    let gpus: Vec<Cuda> = (0..num_ranks).map(opened).collect::<Result<_, _>>()?;
    let names = gpus.iter().map(Cuda::name).collect::<Result<Vec<_>, _>>()?;
    let num_multiprocessors = gpus.iter().map(Cuda::num_multiprocessors).collect::<Result<Vec<_>, _>>()?;
    let least = num_multiprocessors.into_iter().min().unwrap_or(0);
    let nccl = Nccl::new(lanes(plan), plan.run().comm.reduction, timeout, least)?;
    Ok(Arc::new(ThreadWorld::over_nccl(nccl, gpus, &names, timeout)))
}

/// What the ranks of a plan send each other.
fn lanes(plan: &Plan) -> Lanes {
    let grid = plan.grid();
    let on = |stage| plan.pipeline_rank_of(stage).index();
    let edges = plan.training().chain().edges();
    let edges = edges.map(|edge| (edge.index() as u32, [on(edge.sender()), on(edge.receiver())]));
    let largest_unit = plan.units().iter().map(|planned| planned.layout.padded_len()).max().unwrap_or(0);
    Lanes {
        world_size: grid.world_size(),
        data_degree: grid.data_degree,
        tied: plan.tied_pipeline_ranks().map(|(lower, upper)| [lower.index(), upper.index()]),
        edges: edges.filter(|(_, [from, to])| from != to).collect(),
        largest_unit,
    }
}
