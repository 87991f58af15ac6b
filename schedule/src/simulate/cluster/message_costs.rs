//! What a message costs between its ranks, near or far.

use alloc::vec;
use alloc::vec::Vec;

use super::grid::{ClusterLane, Grid};
use super::setting::Cluster;
use super::sharing;
use crate::instruction::Instruction;
use crate::simulate::{Costs, MessageCost};

pub(super) struct MessageCosts<'a> {
    grid: Grid<'a>,
    costs: &'a Costs,
    /// `[edge]`, and `[lane]` whether it is far; empty if far messages cost what near ones cost.
    far_edges: &'a [MessageCost],
    is_far: Vec<bool>,
}

impl<'a> MessageCosts<'a> {
    pub(super) fn new(grid: Grid<'a>, costs: &'a Costs, cluster: &'a Cluster) -> Self {
        let far_edges = cluster.far_edges.as_deref().unwrap_or_default();
        let mut is_far = Vec::new();
        if cluster.far_edges.is_some() {
            is_far = vec![false; grid.num_lanes()];
            for lane in grid.lanes() {
                let members = grid.members(lane);
                is_far[grid.lane_index(lane)] = sharing::is_far(&members, cluster.ranks_per_node);
            }
        }
        Self { grid, costs, far_edges, is_far }
    }

    /// What a message costs at a place along the data axis.
    pub(super) fn of(&self, data_rank: usize, message: Instruction) -> MessageCost {
        let (Instruction::Send { edge, .. } | Instruction::Receive { edge, .. }) = message else {
            return self.costs.message(message);
        };
        let lane = ClusterLane::Edge { edge, data_rank: data_rank as u32 };
        match self.is_far.get(self.grid.lane_index(lane)) {
            Some(true) => self.far_edges[edge.index()],
            _ => self.costs.message(message),
        }
    }

    /// Whether messages take some of their ranks' own time.
    pub(super) fn hold_ranks(&self) -> bool {
        let holds = |cost: &MessageCost| cost.issue > 0 || cost.landing > 0;
        self.costs.hold_ranks() || self.far_edges.iter().any(holds)
    }
}
