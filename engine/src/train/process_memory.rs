//! The memory of the process, as the system sees it, beside what was planned.

use pipezero_partition::Purpose;
use serde::Serialize;

use crate::host;
use crate::plan::Plan;
use crate::run::world::World;

/// Memory of this process, measured from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// What the ranks of this process were planned to hold together.
    pub planned_bytes: u64,
    /// Resident memory that belongs to no file, at the highest moment that was measured (the end of a step, of an evaluation and of
    /// saving), less what it was before the ranks allocated.
    pub grown_bytes: u64,
}

/// Measures the process's memory from time to time.
pub(super) struct MemoryWatch {
    planned_bytes: u64,
    before_bytes: Option<u64>,
    highest_bytes: u64,
}

impl MemoryWatch {
    /// Before the ranks of this process allocate.
    pub(super) fn start(plan: &Plan, world: &dyn World) -> Self {
        let planned_bytes = plan.needed_bytes(Purpose::Training, world.local_ranks());
        Self { planned_bytes, before_bytes: host::resident_bytes(), highest_bytes: 0 }
    }

    /// Measures now.
    pub(super) fn measure(&mut self) {
        self.highest_bytes = self.highest_bytes.max(host::resident_bytes().unwrap_or(0));
    }

    /// What it has seen; `None` where the system does not tell.
    pub(super) fn memory(&self) -> Option<ProcessMemory> {
        let grown_bytes = self.highest_bytes.saturating_sub(self.before_bytes?);
        Some(ProcessMemory { planned_bytes: self.planned_bytes, grown_bytes })
    }
}
