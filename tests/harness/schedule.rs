//! Schedules as small values, so that cases of tests stay `Copy`.

use pipezero::config::ScheduleConfig;

/// A schedule with its number of stages per rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// `gpipe`
    GPipe,
    /// `1f1b`
    OneFOneB,
    /// `eager-1f1b`
    Eager,
    /// `interleaved` with groups of the pipeline degree.
    Interleaved {
        /// v.
        virtual_stages: usize,
    },
    /// `interleaved` with larger groups.
    Grouped {
        /// v.
        virtual_stages: usize,
        /// N.
        group_size: usize,
    },
    /// `bfs`
    Bfs {
        /// v.
        virtual_stages: usize,
    },
}

impl Schedule {
    /// The run file's value.
    pub fn config(self, pipeline: usize) -> ScheduleConfig {
        match self {
            Self::GPipe => ScheduleConfig::GPipe,
            Self::OneFOneB => ScheduleConfig::OneFOneB,
            Self::Eager => ScheduleConfig::EagerOneFOneB,
            Self::Interleaved { .. } => ScheduleConfig::Interleaved { group_size: pipeline },
            Self::Grouped { group_size, .. } => ScheduleConfig::Interleaved { group_size },
            Self::Bfs { .. } => ScheduleConfig::Bfs,
        }
    }

    /// v.
    pub fn virtual_stages(self) -> usize {
        match self {
            Self::GPipe | Self::OneFOneB | Self::Eager => 1,
            Self::Interleaved { virtual_stages }
            | Self::Grouped { virtual_stages, .. }
            | Self::Bfs { virtual_stages } => virtual_stages,
        }
    }
}
