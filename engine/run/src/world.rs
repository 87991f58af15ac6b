//! The world of a plan: how its ranks are connected.

use std::sync::Arc;

use pipezero_comm::Lanes;
pub use pipezero_comm::world::*;
use pipezero_config::{Precision, Run};
use pipezero_models::Device;
use pipezero_models::queue::F32Products;
use pipezero_plan::Plan;

/// Connects the ranks of a plan by its `comm.backend`, on its `device`.
///
/// # Errors
/// When this process cannot be connected with the others, or does not have the device.
pub fn world_of(plan: &Plan) -> Result<Arc<dyn World>, WorldError> {
    connect(&world_spec(plan))
}

/// The ranks of a plan as threads of this process, on these devices in turn, at least one.
pub fn world_on(plan: &Plan, devices: &[Arc<dyn Device>]) -> Arc<dyn World> {
    connect_on(&world_spec(plan), devices)
}

/// How the ranks of a plan are to be connected.
pub fn world_spec(plan: &Plan) -> WorldSpec {
    let run = plan.run();
    WorldSpec {
        comm: run.comm.clone(),
        device: run.device,
        f32_products: f32_products(run),
        lanes: lanes(plan),
    }
}

/// How GPUs multiply matrices of f32 in a run.
fn f32_products(run: &Run) -> F32Products {
    match run.precision {
        Precision::Tf32 => F32Products::Tf32,
        Precision::F32 | Precision::Bf16 | Precision::Fp16(_) => F32Products::Whole,
    }
}

/// Which ranks of a plan send each other messages.
fn lanes(plan: &Plan) -> Lanes {
    let grid = plan.grid();
    let on = |stage| plan.pipeline_rank_of(stage).index();
    let chain = plan.training().chain();
    let edges = chain.edges().filter(|&edge| chain.is_sent_over(edge));
    let edges = edges.map(|edge| (edge.index() as u32, [on(edge.sender()), on(edge.receiver())]));
    Lanes {
        world_size: grid.world_size(),
        data_degree: grid.data_degree,
        tied: plan.tied_pipeline_ranks().map(|(lower, upper)| [lower.index(), upper.index()]),
        edges: edges.collect(),
        largest_unit: plan.largest_message(),
    }
}
