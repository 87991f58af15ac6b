//! The cluster that a plan's ranks make: all alike, sharing nothing. What-if starts from it.

use std::borrow::Cow;

use pipezero_schedule::simulate::Costs;
use pipezero_schedule::simulate::cluster::Cluster;

use super::predicted::Predicted;
use crate::Plan;

impl Predicted {
    /// The plan's ranks on their nodes, all alike and sharing nothing.
    pub fn cluster(&self, plan: &Plan) -> Cluster {
        Cluster {
            ranks_per_node: self.ranks_per_node,
            far_edges: self.edges_by_reach.as_ref().map(|edges| edges.far.clone()),
            // A run has fewer ranks than a `u32` counts; the simulator refuses more.
            ..Cluster::alike(u32::try_from(plan.grid().data_degree).unwrap_or(u32::MAX))
        }
    }

    /// The costs with the near price of every edge whose messages are near for some data ranks and far for others.
    pub(crate) fn near_costs(&self) -> Cow<'_, Costs> {
        match &self.edges_by_reach {
            None => Cow::Borrowed(&self.costs),
            Some(edges) => Cow::Owned(Costs { edges: edges.near.clone(), ..self.costs.clone() }),
        }
    }
}
