//! What the ranks of a plan send each other.

use crate::plan::Plan;
use crate::run::comm::Lanes;

pub(super) fn lanes(plan: &Plan) -> Lanes {
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
