//! Cluster ranks and the lanes between them, numbered.

use alloc::vec::Vec;
use core::ops::Range;

use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Edge, Instruction};

/// A lane of the cluster: what carries messages one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClusterLane {
    /// Gathers of a pipeline rank's units, among its data ranks.
    Gather(PipelineRank),
    /// Reductions of a pipeline rank's gradients, among its data ranks.
    Reduce(PipelineRank),
    /// Messages over an edge between two ranks.
    Edge {
        /// The edge.
        edge: Edge,
        /// The place of both ranks along the data axis.
        data_rank: u32,
    },
}

/// Pipeline rank x data rank, data innermost.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    pub(super) program: &'a CheckedProgram,
    pub(super) data_degree: usize,
}

impl<'a> Grid<'a> {
    pub(super) fn world_size(self) -> usize {
        self.program.num_ranks() * self.data_degree
    }

    pub(super) fn pipeline_rank(self, rank: usize) -> PipelineRank {
        PipelineRank((rank / self.data_degree) as u32)
    }

    pub(super) fn data_rank(self, rank: usize) -> usize {
        rank % self.data_degree
    }

    pub(super) fn rank(self, pipeline_rank: PipelineRank, data_rank: usize) -> usize {
        pipeline_rank.index() * self.data_degree + data_rank
    }

    pub(super) fn row(self, rank: usize) -> &'a [Instruction] {
        self.program.row(self.pipeline_rank(rank))
    }

    /// The ranks that run the same row.
    pub(super) fn data_ranks(self, pipeline_rank: PipelineRank) -> Range<usize> {
        let first = self.rank(pipeline_rank, 0);
        first..first + self.data_degree
    }

    pub(super) fn num_lanes(self) -> usize {
        2 * self.program.num_ranks() + self.program.chain().num_edges() * self.data_degree
    }

    /// A position in a table of lanes.
    pub(super) fn lane_index(self, lane: ClusterLane) -> usize {
        let num_ranks = self.program.num_ranks();
        match lane {
            ClusterLane::Gather(of) => of.index(),
            ClusterLane::Reduce(of) => num_ranks + of.index(),
            ClusterLane::Edge { edge, data_rank } => {
                2 * num_ranks + edge.index() * self.data_degree + data_rank as usize
            }
        }
    }

    /// Every lane over which a message can go, ascending by [`Grid::lane_index`].
    pub(super) fn lanes(self) -> impl Iterator<Item = ClusterLane> {
        let ranks = || self.program.ranks();
        let sent_over =
            self.program.chain().edges().filter(move |&edge| self.program.chain().is_sent_over(edge));
        let of_edges = sent_over.flat_map(move |edge| {
            (0..self.data_degree as u32).map(move |data_rank| ClusterLane::Edge { edge, data_rank })
        });
        ranks().map(ClusterLane::Gather).chain(ranks().map(ClusterLane::Reduce)).chain(of_edges)
    }

    /// The ranks between which a lane's messages go: of an edge, sender and receiver.
    pub(super) fn members(self, lane: ClusterLane) -> Vec<usize> {
        match lane {
            ClusterLane::Gather(of) | ClusterLane::Reduce(of) => self.data_ranks(of).collect(),
            ClusterLane::Edge { edge, data_rank } => [edge.sender(), edge.receiver()]
                .map(|stage| self.rank(self.program.placement().rank(stage), data_rank as usize))
                .into(),
        }
    }
}
