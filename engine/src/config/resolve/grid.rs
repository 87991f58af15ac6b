//! The grid, before the sections that it decides are resolved.

use crate::config::resolved::{ParallelConfig, PartitionConfig, ScheduleConfig};

/// The grid with its schedule and its split, as far as the file alone says them.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// p.
    pub(super) pipeline: usize,
    /// d.
    pub(super) data: usize,
    pub(super) schedule: ScheduleConfig,
    /// v.
    pub(super) virtual_stages: usize,
    pub(super) partition: PartitionConfig,
}

impl Grid {
    /// World size, p * d; that it fits is checked when the grid is made.
    pub(super) fn num_ranks(&self) -> usize {
        self.pipeline * self.data
    }

    pub(super) fn into_config(self) -> ParallelConfig {
        ParallelConfig {
            pipeline: self.pipeline,
            data: self.data,
            schedule: self.schedule,
            virtual_stages: self.virtual_stages,
            partition: self.partition,
        }
    }
}
