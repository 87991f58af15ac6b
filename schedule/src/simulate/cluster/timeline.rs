//! When each instruction of each data rank started and ended.

use alloc::vec::Vec;

use crate::check::CheckedProgram;
use crate::simulate::Timeline;

/// A timeline for each data rank, all on one clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTimeline {
    /// `[data rank]`
    pub(super) timelines: Vec<Timeline>,
}

impl ClusterTimeline {
    /// One timeline for each data rank, ascending: as many as the data degree. Each spans the data rank's pipeline
    /// ranks alone, so its makespan may be earlier than the cluster's.
    pub fn by_data_rank(&self) -> &[Timeline] {
        &self.timelines
    }

    /// When everything had ended on all ranks.
    pub fn makespan(&self) -> u64 {
        self.timelines.iter().map(Timeline::makespan).max().unwrap_or(0)
    }

    /// The longest [`Timeline::longest_rank_span`].
    pub fn longest_rank_span(&self, program: &CheckedProgram) -> u64 {
        self.timelines.iter().map(|timeline| timeline.longest_rank_span(program)).max().unwrap_or(0)
    }

    /// The timelines, by data rank.
    pub fn into_by_data_rank(self) -> Vec<Timeline> {
        self.timelines
    }
}
