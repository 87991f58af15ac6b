//! Why a step cannot be simulated.

use crate::costs::PredictError;

/// Why a step of a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The source of costs has no price for something that the plan does.
    #[error(transparent)]
    Costs(PredictError),
    /// The costs are too large, or the cluster is not one of this plan.
    #[error(transparent)]
    Step(PredictError),
    /// Ports to other nodes are shared, and there is only one node.
    #[error(
        "messages to other nodes share the port of their node, but all {world_size} ranks are on one node; set \
         comm.ranks_per_node to fewer (comm.links.ranks_per_node where the run has links), name a device with smaller nodes, or let ranks share ports instead (rank-port)"
    )]
    OneNode {
        /// Ranks of the run.
        world_size: usize,
    },
}
