//! Schedules as small values, so that cases of tests stay `Copy`.

use pipezero_config::ScheduleConfig;

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
    /// `zb-h1`
    ZbH1,
    /// `zb-h2`
    ZbH2,
    /// `zb-v`
    ZbV,
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
            Self::ZbH1 => ScheduleConfig::ZbH1,
            Self::ZbH2 => ScheduleConfig::ZbH2,
            Self::ZbV => ScheduleConfig::ZbV,
        }
    }

    /// Whether weight gradients run apart from input gradients; then nothing is recomputed.
    pub fn splits_backwards(self) -> bool {
        matches!(self, Self::ZbH1 | Self::ZbH2 | Self::ZbV)
    }

    /// v.
    pub fn virtual_stages(self) -> usize {
        match self {
            Self::GPipe | Self::OneFOneB | Self::Eager | Self::ZbH1 | Self::ZbH2 => 1,
            Self::ZbV => 2,
            Self::Interleaved { virtual_stages }
            | Self::Grouped { virtual_stages, .. }
            | Self::Bfs { virtual_stages } => virtual_stages,
        }
    }
}
